/* Removes the folders that a test has made. */
#ifndef VKF_TESTS_SUPPORT_FOLDER_H
#define VKF_TESTS_SUPPORT_FOLDER_H

#include <stdio.h>
#include <unistd.h>

static inline int folder_remove_names(const char *folder, const char *const *names) {
  char path[512];
  for (; *names; names++) {
    snprintf(path, sizeof path, "%s/%s", folder, *names);
    remove(path);
  }
  return rmdir(folder);
}

/* Removes these files, if they exist, and the folder. Returns 0, or -1 if something else is left in it. */
#define folder_remove(folder, ...) folder_remove_names(folder, (const char *const[]){__VA_ARGS__, NULL})

#endif
