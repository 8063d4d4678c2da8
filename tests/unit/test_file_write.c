/* The writer of files: links, pipes and devices stay what they are, files keep mode and owner, and a write that fails
 * leaves the old file and nothing else. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "file/map.h"
#include "file/write.h"

static vkf_env env;
static char folder[64], path[512];

static const char *in_folder(const char *name) {
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  return path;
}

static vkf_status put(const char *name, const char *text) {
  vkf_env_clear(&env);
  return vkf_file_write(&env, name[0] == '/' ? name : in_folder(name), &(vkf_file_part){text, strlen(text)}, 1);
}

static void must_hold(const char *name, const char *text) {
  vkf_file_map map;
  assert_int_equal(vkf_file_map_read(&env, in_folder(name), &map), VKF_OK);
  assert_int_equal(map.bytes, strlen(text));
  assert_memory_equal(map.data, text, map.bytes);
  vkf_file_map_close(&map);
}

static mode_t mode_of(const char *name) {
  struct stat facts;
  assert_int_equal(lstat(in_folder(name), &facts), 0);
  return facts.st_mode;
}

static size_t count_files(void) {
  size_t n = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

static int begin(void **state) {
  (void)state;
  vkf_env_init(&env, NULL);
  strcpy(folder, "/tmp/vkf-write-XXXXXX");
  return mkdtemp(folder) == NULL;
}

static int end(void **state) {
  (void)state;
  DIR *d = opendir(folder);
  for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlinkat(dirfd(d), e->d_name, 0) != 0)
      unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
  closedir(d);
  return rmdir(folder);
}

/* ---- regular files ----------------------------------------------------------------------------------------------- */

static void modes_stay(void **state) {
  (void)state;
  static const mode_t modes[] = {0600, 0644, 0660, 0755, 0604, 01644, 04755};
  const mode_t old = umask(022);
  assert_int_equal(put("new", "one"), VKF_OK);
  assert_int_equal(mode_of("new"), S_IFREG | 0644);
  for (size_t i = 0; i < VKF_COUNT(modes); i++) {
    assert_int_equal(chmod(in_folder("new"), modes[i]), 0);
    assert_int_equal(put("new", "two"), VKF_OK);
    must_hold("new", "two");
    assert_int_equal(mode_of("new"), S_IFREG | modes[i]);
  }
  umask(077);
  assert_int_equal(put("private", "one"), VKF_OK);
  assert_int_equal(mode_of("private"), S_IFREG | 0600);
  umask(old);
  assert_int_equal(count_files(), 2);
}

/* Only root can give files away. Without root this only checks the mode once more. */
static void owners_stay(void **state) {
  (void)state;
  struct stat facts;
  assert_int_equal(put("theirs", "one"), VKF_OK);
  if (geteuid() == 0) assert_int_equal(chown(in_folder("theirs"), 12, 34), 0);
  assert_int_equal(chmod(in_folder("theirs"), 0640), 0);
  assert_int_equal(put("theirs", "two"), VKF_OK);
  assert_int_equal(stat(in_folder("theirs"), &facts), 0);
  assert_int_equal(facts.st_uid, geteuid() == 0 ? 12 : geteuid());
  assert_int_equal(facts.st_gid, geteuid() == 0 ? 34 : getegid());
  assert_int_equal(facts.st_mode, S_IFREG | 0640);
}

/* If the writer cannot give the new file to the old file's group, the group's bits are cleared, because they would give
 * the writer's own group these rights. */
static void rights_of_another_group_go(void **state) {
  (void)state;
  enum { SELF = 12, OTHER = 13 };
  static const struct {
    uid_t owner;
    gid_t group;
    mode_t mode, expected;
  } rows[] = {{SELF, OTHER, 0670, 0600}, {OTHER, OTHER, 0667, 0607}, {SELF, 0, 0670, 0670}, {OTHER, 0, 0667, 0667}};
  if (geteuid() != 0) skip();
  assert_int_equal(chmod(folder, 0777), 0);
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    assert_int_equal(put("lent", "one"), VKF_OK);
    assert_int_equal(chown(in_folder("lent"), rows[i].owner, rows[i].group), 0);
    assert_int_equal(chmod(in_folder("lent"), rows[i].mode), 0);
    assert_int_equal(seteuid(SELF), 0);
    const vkf_status st = put("lent", "two");
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(st, VKF_OK);
    assert_int_equal(mode_of("lent"), S_IFREG | rows[i].expected);
    assert_int_equal(unlink(in_folder("lent")), 0);
  }
}

/* Root may write everything, so a child process of another user tries. */
static void protected_files_are_refused(void **state) {
  (void)state;
  int status = 0;
  assert_int_equal(put("kept", "one"), VKF_OK);
  assert_int_equal(chmod(in_folder("kept"), 0444), 0);
  assert_int_equal(chmod(folder, 0777), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(3);
    const bool is_refused = put("kept", "two") == VKF_ERROR_FILE && strstr(env.message, "cannot be written");
    vkf_env_clear(&env);
    _exit(!is_refused || vkf_file_write_check(&env, in_folder("kept")) != VKF_ERROR_FILE);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  must_hold("kept", "one");
  assert_int_equal(count_files(), 1);
}

static void links_stay(void **state) {
  (void)state;
  char real[sizeof path];
  assert_int_equal(put("real", "one"), VKF_OK);
  assert_int_equal(chmod(in_folder("real"), 0600), 0);
  assert_int_equal(mkdir(in_folder("sub"), 0777), 0);
  assert_int_equal(symlink("../real", in_folder("sub/up")), 0);
  assert_int_equal(symlink("sub/up", in_folder("link")), 0);
  assert_int_equal(symlink("there", in_folder("dangling")), 0);
  snprintf(real, sizeof real, "%s", in_folder("real"));
  assert_int_equal(symlink(real, in_folder("sub/absolute")), 0);
  assert_int_equal(symlink("loop", in_folder("loop")), 0);
  assert_int_equal(put("link", "two"), VKF_OK);
  must_hold("real", "two");
  assert_true(S_ISLNK(mode_of("link")) && S_ISLNK(mode_of("sub/up")));
  assert_int_equal(mode_of("real"), S_IFREG | 0600);
  assert_int_equal(put("sub/absolute", "2"), VKF_OK);
  must_hold("real", "2");
  assert_true(S_ISLNK(mode_of("sub/absolute")));
  assert_int_equal(remove(in_folder("sub/absolute")), 0);
  assert_int_equal(put("dangling", "three"), VKF_OK);
  must_hold("there", "three");
  assert_true(S_ISLNK(mode_of("dangling")));
  assert_int_equal(put("loop", "four"), VKF_ERROR_FILE);
  assert_true(S_ISLNK(mode_of("loop")));
  assert_int_equal(remove(in_folder("sub/up")), 0);
  assert_int_equal(count_files(), 6); /* real, sub, link, dangling, there, loop */
}

static void refused_paths(void **state) {
  (void)state;
  static const char *const names[] = {"no/such/folder", "file/below", ""};
  assert_int_equal(put("file", "one"), VKF_OK);
  for (size_t i = 0; i < VKF_COUNT(names); i++) {
    const char *name = names[i][0] ? in_folder(names[i]) : "";
    vkf_env_clear(&env);
    assert_int_equal(vkf_file_write_check(&env, name), VKF_ERROR_FILE);
    assert_string_not_equal(env.message, "");
    vkf_env_clear(&env);
    assert_int_equal(vkf_file_write(&env, name, &(vkf_file_part){"two", 3}, 1), VKF_ERROR_FILE);
    assert_string_not_equal(env.message, "");
  }
  vkf_env_clear(&env);
  assert_int_equal(vkf_file_write_check(&env, folder), VKF_ERROR_FILE);
  assert_int_equal(put(folder, "two"), VKF_ERROR_FILE);
  assert_non_null(strstr(env.message, "cannot be written: Is a directory"));
  vkf_env_clear(&env);
  assert_int_equal(vkf_file_write_check(&env, in_folder("file")), VKF_OK);
  assert_int_equal(vkf_file_write_check(&env, in_folder("other")), VKF_OK);
  must_hold("file", "one");
  assert_int_equal(count_files(), 1);
}

/* The write exceeds a limit on the size of files, which only a child process has. */
static void a_write_that_fails_leaves_nothing(void **state) {
  (void)state;
  int status = 0;
  assert_int_equal(put("file", "one"), VKF_OK);
  const pid_t child = fork();
  if (child == 0) {
    static const char long_text[5000];
    const struct rlimit limit = {1000, 1000};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(3);
    const vkf_status st = vkf_file_write(&env, in_folder("file"), &(vkf_file_part){long_text, sizeof long_text}, 1);
    _exit(st != VKF_ERROR_FILE || !strstr(env.message, "file: cannot be written"));
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  must_hold("file", "one");
  assert_int_equal(count_files(), 1);
}

/* ---- what is no regular file ------------------------------------------------------------------------------------- */

static bool is_safe_for_devices; /* pipes were not replaced, so this machine's devices will not be */

static void pipes_are_written_through(void **state) {
  (void)state;
  char got[64] = "";
  int status = 0;
  assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
  const pid_t child = fork();
  if (child == 0) _exit(put("pipe", "through") != VKF_OK);
  const int fd = open(in_folder("pipe"), O_RDONLY);
  assert_int_equal(read(fd, got, sizeof got), 7);
  close(fd);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_string_equal(got, "through");
  assert_true(S_ISFIFO(mode_of("pipe")));
  assert_int_equal(count_files(), 1);
  is_safe_for_devices = true;
}

static void devices_are_written_through(void **state) {
  (void)state;
  struct stat facts;
  assert_true(is_safe_for_devices);
  assert_int_equal(put("/dev/null", "gone"), VKF_OK);
  assert_int_equal(symlink("/dev/full", in_folder("full")), 0);
  assert_int_equal(put("full", "too much"), VKF_ERROR_FILE);
  assert_non_null(strstr(env.message, "full: cannot be written: "));
  assert_true(S_ISLNK(mode_of("full")));
  assert_int_equal(stat("/dev/null", &facts), 0);
  assert_true(S_ISCHR(facts.st_mode));
  assert_int_equal(count_files(), 1);
}

/* What the open file has already stays, and its descriptor continues after what is written. */
static void open_files_are_written_through(void **state) {
  (void)state;
  char name[32];
  const int fd = open(in_folder("open"), O_WRONLY | O_CREAT, 0600);
  assert_int_equal(write(fd, "one ", 4), 4);
  snprintf(name, sizeof name, "/dev/fd/%d", fd);
  assert_int_equal(put(name, "two "), VKF_OK);
  assert_int_equal(write(fd, "three", 5), 5);
  snprintf(name, sizeof name, "/dev/fd/%dx", fd); /* names no descriptor */
  assert_int_equal(put(name, "none"), VKF_ERROR_FILE);
  const int kept = dup(STDOUT_FILENO);
  fflush(stdout);
  dup2(fd, STDOUT_FILENO);
  const vkf_status by_name = put("/dev/stdout", " four"), by_file = put("open", " five");
  dup2(kept, STDOUT_FILENO);
  close(kept);
  close(fd);
  assert_int_equal(by_name, VKF_OK);
  assert_int_equal(by_file, VKF_OK);
  must_hold("open", "one two three four five");
  snprintf(name, sizeof name, "/dev/fd/%d", fd); /* closed now */
  assert_int_equal(put(name, "six"), VKF_ERROR_FILE);
  assert_int_equal(count_files(), 1);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_int_equal(put("real", "one"), VKF_OK);
  assert_int_equal(symlink("real", in_folder("link")), 0);
  uint64_t n = 0, before = 0;
  do {
    n++;
    before = env.n_allocations;
    vkf_env_clear(&env);
    env.fail_at = before + n;
    vkf_status st = vkf_file_write_check(&env, in_folder("link"));
    if (st == VKF_OK) st = vkf_file_write(&env, in_folder("link"), &(vkf_file_part){"two", 3}, 1);
    assert_true(st == VKF_OK || st == VKF_ERROR_MEMORY);
    assert_int_equal(count_files(), 2);
  } while (env.n_allocations - before >= n);
  env.fail_at = 0;
  assert_true(n > 3);
  assert_int_equal(env.live_bytes, 0);
  must_hold("real", "two");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
  alarm(60); /* in case a pipe is never opened */
  const struct CMUnitTest tests[] = {
      IN_FOLDER(modes_stay),
      IN_FOLDER(owners_stay),
      IN_FOLDER(rights_of_another_group_go),
      IN_FOLDER(protected_files_are_refused),
      IN_FOLDER(links_stay),
      IN_FOLDER(refused_paths),
      IN_FOLDER(a_write_that_fails_leaves_nothing),
      IN_FOLDER(pipes_are_written_through),
      IN_FOLDER(devices_are_written_through),
      IN_FOLDER(open_files_are_written_through),
      IN_FOLDER(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
