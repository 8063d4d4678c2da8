/* In sanitized builds: libraries that were opened stay, so that a report of leaked memory can name the driver or layer
 * it comes from, and leaks.supp can tell a driver's leaks from ours. Takes the place of dlclose for the whole process.
 */
int dlclose(void *handle);

__attribute__((visibility("default"))) int dlclose(void *handle) {
  (void)handle;
  return 0;
}
