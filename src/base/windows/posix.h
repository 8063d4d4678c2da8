/* windows: the parts of POSIX that the sources use and mingw-w64 lacks. In a build for Windows every file includes this
 * first (cmake/flags.cmake). The headers beside this one are empty: they stand in for headers of POSIX that mingw-w64
 * lacks.
 *
 * Errors are those of POSIX, in errno. File names are UTF-8 (program.manifest). fork() fails with ENOSYS, and so does
 * everything that needs a child process.
 */
#ifndef VKF_BASE_WINDOWS_POSIX_H
#define VKF_BASE_WINDOWS_POSIX_H

#define _FILE_OFFSET_BITS 64
#define tell hidden_tell /* io.h declares these names, which the sources reuse */
#define open hidden_open
#define clock hidden_clock
#include <direct.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#undef tell
#undef open
#undef clock
#define open(...) vkf_windows_open(__VA_ARGS__, 0)
/* Opens folders, too, so that they can be told from files. An open file can be removed. */
int vkf_windows_open(const char *path, int flags, int mode, ...);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The sources open every descriptor with O_CLOEXEC and none as text, so O_CLOEXEC includes _O_BINARY. */
#define O_CLOEXEC (_O_NOINHERIT | _O_BINARY)
#define O_NONBLOCK 0
#define O_NOFOLLOW 0
#define O_NOCTTY 0
#define S_ISUID 0
#define S_ISGID 0
#undef S_IRWXG
#define S_IRWXG 0
#undef S_IWGRP
#define S_IWGRP 0
#undef S_IWOTH
#define S_IWOTH 0

typedef unsigned uid_t, gid_t;

/* Replaces mingw-w64's struct, which has no room for the numbers by which Windows identifies a file. */
struct vkf_windows_stat {
  uint64_t st_dev, st_ino;
  mode_t st_mode; /* 0600 and the kind */
  off_t st_size;
  uid_t st_uid; /* always 0, as geteuid() */
  gid_t st_gid;
  struct timespec st_mtim;
};
#undef stat
#undef fstat
#define stat vkf_windows_stat
#define lstat vkf_windows_stat
#define fstat vkf_windows_fstat
int vkf_windows_stat(const char *path, struct vkf_windows_stat *out);
int vkf_windows_fstat(int fd, struct vkf_windows_stat *out);

/* Replaces what is there, as in POSIX. */
#define rename vkf_windows_rename
int vkf_windows_rename(const char *from, const char *to);

/* Removes empty folders, too. */
#define remove vkf_windows_remove
int vkf_windows_remove(const char *path);

#define mkdir(path, mode) _mkdir(path)
#define fsync(fd) _commit(fd)
#define pipe(fds) _pipe(fds, 1 << 16, _O_NOINHERIT | _O_BINARY)

enum { F_SETFD = 1, F_SETFL, F_DUPFD_CLOEXEC, FD_CLOEXEC };
int fcntl(int fd, int command, int argument);

enum { AT_FDCWD = -1, AT_EACCESS = 0 };
int faccessat(int folder, const char *path, int mode, int flags);

static inline int fchown(int fd, uid_t owner, gid_t group) {
  (void)fd, (void)owner, (void)group;
  return 0;
}
static inline int fchmod(int fd, mode_t mode) {
  (void)fd, (void)mode;
  return 0;
}
static inline uid_t geteuid(void) {
  return 0;
}

/* Knows only /proc/self/exe. */
ssize_t readlink(const char *path, char *out, size_t size);
ssize_t pread(int fd, void *out, size_t size, off_t offset);

enum { LOCK_EX = 2, LOCK_NB = 4 };
int flock(int fd, int operation);

struct statvfs {
  unsigned long f_frsize;
  uint64_t f_bavail;
};
int statvfs(const char *path, struct statvfs *out);

int scandir(const char *path, struct dirent ***entries, int (*filter)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **));
int alphasort(const struct dirent **a, const struct dirent **b);

struct pollfd {
  int fd;
  short events, revents;
};
enum { POLLIN = 1 };
int poll(struct pollfd *fds, unsigned n, int milliseconds); /* looks at fds[0] only */

/* ---- memory ------------------------------------------------------------------------------------------------------ */

enum { PROT_READ = 1, MAP_PRIVATE = 2, MADV_DONTNEED = 4 };
#define MAP_FAILED ((void *)(intptr_t)-1)
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset); /* read-only, from offset 0 */
int munmap(void *at, size_t bytes);
static inline int madvise(void *at, size_t bytes, int advice) {
  (void)at, (void)bytes, (void)advice;
  return 0;
}

enum { _SC_NPROCESSORS_ONLN, _SC_PHYS_PAGES, _SC_PAGESIZE };
long sysconf(int name);

/* ---- text and streams -------------------------------------------------------------------------------------------- */

char *strndup(const char *text, size_t n);
char *mkdtemp(char *path);
int setenv(const char *name, const char *value, int replaces);
int unsetenv(const char *name);

/* Writes to a temporary file, which fflush() and fclose() copy into *text. */
FILE *open_memstream(char **text, size_t *size);
#define fclose vkf_windows_fclose
#define fflush vkf_windows_fflush
int vkf_windows_fclose(FILE *file);
int vkf_windows_fflush(FILE *file);

/* ---- libraries and processes ------------------------------------------------------------------------------------- */

enum { RTLD_NOW = 1, RTLD_LOCAL = 2 };
void *dlopen(const char *name, int flags);
void *dlsym(void *library, const char *name);
int dlclose(void *library);
char *dlerror(void); /* of this thread's last error */

enum { SIGKILL = 9, SIGPIPE = 13, SIGXFSZ = 25 };
pid_t fork(void); /* -1 with ENOSYS */
int kill(pid_t process, int signal);
pid_t waitpid(pid_t process, int *status, int flags);
#define WIFEXITED(status) ((void)(status), 1)
#define WEXITSTATUS(status) (status)
#define WIFSIGNALED(status) ((void)(status), 0)
#define WTERMSIG(status) (status)
#define strsignal(number) ((void)(number), "a signal")

#endif
