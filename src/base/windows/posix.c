/* windows: see posix.h. */
#include <stdbool.h>
#include <windows.h>

#undef stat
#undef lstat
#undef fstat
#undef remove
#undef rename
#undef fclose
#undef fflush

/* Sets errno to POSIX's name of the last Windows error, or EIO, and returns -1. */
static int failed(void) {
  static const struct {
    DWORD windows;
    int posix;
  } names[] = {{ERROR_FILE_NOT_FOUND, ENOENT},    {ERROR_PATH_NOT_FOUND, ENOENT}, {ERROR_INVALID_NAME, ENOENT},
               {ERROR_BAD_NETPATH, ENOENT},       {ERROR_ACCESS_DENIED, EACCES},  {ERROR_SHARING_VIOLATION, EACCES},
               {ERROR_FILE_EXISTS, EEXIST},       {ERROR_ALREADY_EXISTS, EEXIST}, {ERROR_DIRECTORY, ENOTDIR},
               {ERROR_NOT_ENOUGH_MEMORY, ENOMEM}, {ERROR_OUTOFMEMORY, ENOMEM},    {ERROR_DISK_FULL, ENOSPC},
               {ERROR_LOCK_VIOLATION, EAGAIN},    {ERROR_INVALID_HANDLE, EBADF},  {ERROR_BROKEN_PIPE, EPIPE}};
  const DWORD last = GetLastError();
  errno = EIO;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (names[i].windows == last) errno = names[i].posix;
  return -1;
}

static HANDLE handle_of(int fd) {
  return (HANDLE)_get_osfhandle(fd);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int facts_of(HANDLE file, struct vkf_windows_stat *out) {
  BY_HANDLE_FILE_INFORMATION facts;
  memset(out, 0, sizeof *out);
  const DWORD kind = GetFileType(file);
  if (kind == FILE_TYPE_UNKNOWN && GetLastError() != NO_ERROR) return failed();
  if (kind != FILE_TYPE_DISK) {
    out->st_dev = (uintptr_t)file;
    out->st_mode = (mode_t)(0600 | (kind == FILE_TYPE_PIPE ? S_IFIFO : S_IFCHR));
    return 0;
  }
  if (!GetFileInformationByHandle(file, &facts)) { /* in Wine, for a stream that the shell opened */
    LARGE_INTEGER size = {.QuadPart = 0};
    GetFileSizeEx(file, &size);
    *out = (struct vkf_windows_stat){.st_dev = (uintptr_t)file, .st_mode = S_IFREG | 0600, .st_size = size.QuadPart};
    return 0;
  }
  const uint64_t written = (uint64_t)facts.ftLastWriteTime.dwHighDateTime << 32 | facts.ftLastWriteTime.dwLowDateTime;
  out->st_dev = facts.dwVolumeSerialNumber;
  out->st_ino = (uint64_t)facts.nFileIndexHigh << 32 | facts.nFileIndexLow;
  out->st_mode = (mode_t)(0600 | (facts.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? S_IFDIR : S_IFREG));
  out->st_size = (off_t)((uint64_t)facts.nFileSizeHigh << 32 | facts.nFileSizeLow);
  out->st_mtim = (struct timespec){(time_t)(written / 10000000), (long)(written % 10000000 * 100)}; /* since 1601 */
  return 0;
}

int vkf_windows_stat(const char *path, struct vkf_windows_stat *out) {
  const HANDLE file = CreateFileA(path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                                  FILE_FLAG_BACKUP_SEMANTICS, NULL);
  if (file == INVALID_HANDLE_VALUE) return failed();
  const int result = facts_of(file, out);
  CloseHandle(file);
  return result;
}

int vkf_windows_fstat(int fd, struct vkf_windows_stat *out) {
  return facts_of(handle_of(fd), out);
}

int vkf_windows_open(const char *path, int flags, int mode, ...) {
  const bool writes = flags & (_O_WRONLY | _O_RDWR), reads = !(flags & _O_WRONLY);
  const DWORD access = (reads ? GENERIC_READ : 0u) | (writes ? GENERIC_WRITE : 0u);
  const DWORD how = !(flags & _O_CREAT) ? (flags & _O_TRUNC ? TRUNCATE_EXISTING : OPEN_EXISTING)
                    : flags & _O_EXCL   ? CREATE_NEW
                    : flags & _O_TRUNC  ? CREATE_ALWAYS
                                        : OPEN_ALWAYS;
  (void)mode;
  const HANDLE file = CreateFileA(path, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, how,
                                  FILE_ATTRIBUTE_NORMAL | FILE_FLAG_BACKUP_SEMANTICS, NULL);
  return file == INVALID_HANDLE_VALUE ? failed() : _open_osfhandle((intptr_t)file, flags);
}

int vkf_windows_rename(const char *from, const char *to) {
  struct vkf_windows_stat facts;
  /* as in POSIX, a folder may replace an empty one */
  if (vkf_windows_stat(to, &facts) == 0 && S_ISDIR(facts.st_mode) && _rmdir(to) != 0) return -1;
  return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ? 0 : failed();
}

int vkf_windows_remove(const char *path) {
  struct vkf_windows_stat facts;
  if (vkf_windows_stat(path, &facts) != 0) return -1;
  return S_ISDIR(facts.st_mode) ? _rmdir(path) : _unlink(path);
}

int fcntl(int fd, int command, int argument) {
  (void)argument;
  return command == F_DUPFD_CLOEXEC ? _dup(fd) : 0;
}

int faccessat(int folder, const char *path, int mode, int flags) {
  (void)folder, (void)flags;
  return _access(path, mode & (R_OK | W_OK));
}

ssize_t readlink(const char *path, char *out, size_t size) {
  if (strcmp(path, "/proc/self/exe") != 0) {
    errno = EINVAL;
    return -1;
  }
  const DWORD n = GetModuleFileNameA(NULL, out, (DWORD)size);
  for (DWORD i = 0; i < n; i++)
    if (out[i] == '\\') out[i] = '/';
  return n > 0 && n < size ? (ssize_t)n : failed();
}

ssize_t pread(int fd, void *out, size_t size, off_t offset) {
  const int64_t at = _lseeki64(fd, 0, SEEK_CUR);
  if (at < 0 || _lseeki64(fd, offset, SEEK_SET) < 0) return -1;
  const int n = _read(fd, out, (unsigned)size);
  return _lseeki64(fd, at, SEEK_SET) < 0 ? -1 : n;
}

/* Locks a byte far behind the end, because others can neither read nor write what is locked. */
int flock(int fd, int operation) {
  OVERLAPPED at = {.OffsetHigh = 1u << 30};
  const DWORD flags =
      (operation & LOCK_EX ? LOCKFILE_EXCLUSIVE_LOCK : 0u) | (operation & LOCK_NB ? LOCKFILE_FAIL_IMMEDIATELY : 0u);
  return LockFileEx(handle_of(fd), flags, 0, 1, 0, &at) ? 0 : failed();
}

int statvfs(const char *path, struct statvfs *out) {
  ULARGE_INTEGER bytes;
  if (!GetDiskFreeSpaceExA(path, &bytes, NULL, NULL)) return failed();
  *out = (struct statvfs){1, bytes.QuadPart};
  return 0;
}

int alphasort(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

int scandir(const char *path, struct dirent ***entries, int (*filter)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **)) {
  DIR *dir = opendir(path);
  int n = 0;
  *entries = NULL;
  if (!dir) return -1;
  for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
    if (filter && !filter(entry)) continue;
    struct dirent **grown = realloc(*entries, (size_t)(n + 1) * sizeof *grown);
    struct dirent *copy = grown ? malloc(sizeof *copy) : NULL;
    if (grown) *entries = grown;
    if (!copy) break;
    *copy = *entry;
    grown[n++] = copy;
  }
  closedir(dir);
  if (n > 0) qsort(*entries, (size_t)n, sizeof **entries, (int (*)(const void *, const void *))(void (*)(void))compare);
  return n;
}

int poll(struct pollfd *fds, unsigned n, int milliseconds) {
  const HANDLE file = handle_of(fds->fd);
  const ULONGLONG end = GetTickCount64() + (ULONGLONG)(milliseconds < 0 ? 0 : milliseconds);
  DWORD bytes = 0;
  (void)n;
  if (GetFileType(file) == FILE_TYPE_CHAR)
    return WaitForSingleObject(file, milliseconds < 0 ? INFINITE : (DWORD)milliseconds) == WAIT_OBJECT_0;
  if (GetFileType(file) != FILE_TYPE_PIPE) return 1;
  while (PeekNamedPipe(file, NULL, 0, NULL, &bytes, NULL) && !bytes) { /* fails for a broken pipe: it counts as ready */
    if (milliseconds >= 0 && GetTickCount64() >= end) return 0;
    Sleep(1);
  }
  return 1;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  (void)at, (void)protection, (void)flags, (void)offset;
  const HANDLE mapping = CreateFileMappingA(handle_of(fd), NULL, PAGE_READONLY, 0, 0, NULL);
  void *view = mapping ? MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, bytes) : NULL;
  if (!view) failed();
  if (mapping) CloseHandle(mapping); /* the view keeps the mapping */
  return view ? view : MAP_FAILED;
}

int munmap(void *at, size_t bytes) {
  (void)bytes;
  return UnmapViewOfFile(at) ? 0 : failed();
}

long sysconf(int name) {
  SYSTEM_INFO system;
  MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
  GetSystemInfo(&system);
  if (name == _SC_NPROCESSORS_ONLN) return (long)system.dwNumberOfProcessors;
  if (name == _SC_PAGESIZE) return (long)system.dwPageSize;
  return GlobalMemoryStatusEx(&memory) ? (long)(memory.ullTotalPhys / system.dwPageSize) : -1;
}

/* ---- text and streams -------------------------------------------------------------------------------------------- */

char *strndup(const char *text, size_t n) {
  n = strnlen(text, n);
  char *copy = malloc(n + 1);
  if (!copy) return NULL;
  memcpy(copy, text, n);
  copy[n] = 0;
  return copy;
}

char *mkdtemp(char *path) {
  return _mktemp(path) && _mkdir(path) == 0 ? path : NULL;
}

int setenv(const char *name, const char *value, int replaces) {
  if (!replaces && getenv(name)) return 0;
  /* _putenv_s() would remove a variable with an empty value. */
  if (!*value) return SetEnvironmentVariableA(name, "") ? 0 : failed();
  return _putenv_s(name, value) == 0 ? 0 : -1;
}

int unsetenv(const char *name) {
  return _putenv_s(name, "") == 0 ? 0 : -1;
}

/* The open memory streams of all threads. */
static struct stream {
  FILE *file;
  char **text;
  size_t *size;
  struct stream *next;
} * streams;
static SRWLOCK streams_lock = SRWLOCK_INIT;

FILE *open_memstream(char **text, size_t *size) {
  struct stream *own = malloc(sizeof *own);
  FILE *file = own ? tmpfile() : NULL;
  *text = NULL;
  *size = 0;
  if (!file) {
    free(own);
    return NULL;
  }
  AcquireSRWLockExclusive(&streams_lock);
  *own = (struct stream){file, text, size, streams};
  streams = own;
  ReleaseSRWLockExclusive(&streams_lock);
  return file;
}

static struct stream **find(FILE *file) {
  struct stream **at = &streams;
  while (*at && (*at)->file != file) at = &(*at)->next;
  return at;
}

/* Copies what was written so far into *own->text. Returns 0 or EOF. */
static int put(const struct stream *own) {
  if (fflush(own->file) != 0) return EOF;
  const int64_t size = _ftelli64(own->file);
  char *text = size >= 0 ? realloc(*own->text, (size_t)size + 1) : NULL;
  if (!text) return EOF;
  *own->text = text;
  rewind(own->file);
  *own->size = fread(text, 1, (size_t)size, own->file);
  text[*own->size] = 0;
  return _fseeki64(own->file, size, SEEK_SET) == 0 && *own->size == (size_t)size ? 0 : EOF;
}

int vkf_windows_fflush(FILE *file) {
  AcquireSRWLockExclusive(&streams_lock);
  const struct stream *own = *find(file);
  ReleaseSRWLockExclusive(&streams_lock);
  return own ? put(own) : fflush(file);
}

int vkf_windows_fclose(FILE *file) {
  AcquireSRWLockExclusive(&streams_lock);
  struct stream **at = find(file), *own = *at;
  if (own) *at = own->next;
  ReleaseSRWLockExclusive(&streams_lock);
  const int result = own ? put(own) : 0;
  free(own);
  return fclose(file) == 0 ? result : EOF;
}

/* ---- libraries and processes ------------------------------------------------------------------------------------- */

void *dlopen(const char *name, int flags) {
  (void)flags;
  return (void *)LoadLibraryA(name);
}

void *dlsym(void *library, const char *name) {
  return (void *)(uintptr_t)GetProcAddress((HMODULE)library, name);
}

int dlclose(void *library) {
  return FreeLibrary((HMODULE)library) ? 0 : -1;
}

char *dlerror(void) {
  static _Thread_local char text[256];
  const DWORD n = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, GetLastError(), 0,
                                 text, sizeof text, NULL);
  if (!n) snprintf(text, sizeof text, "error %lu", (unsigned long)GetLastError());
  text[strcspn(text, "\r\n")] = 0;
  return text;
}

pid_t fork(void) {
  errno = ENOSYS;
  return -1;
}

int kill(pid_t process, int signal) {
  const HANDLE other = OpenProcess(signal ? PROCESS_TERMINATE : SYNCHRONIZE, FALSE, (DWORD)process);
  if (!other) return failed();
  const int result =
      signal ? (TerminateProcess(other, 1) ? 0 : failed()) : (WaitForSingleObject(other, 0) == WAIT_TIMEOUT ? 0 : -1);
  CloseHandle(other);
  return result;
}

pid_t waitpid(pid_t process, int *status, int flags) {
  (void)process, (void)status, (void)flags;
  errno = ENOSYS;
  return -1;
}
