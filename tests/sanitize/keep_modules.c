/* Replaces dlclose() in sanitized builds and keeps libraries open, so that a report of leaked memory can name the
 * driver or layer that it comes from, and leaks.supp can tell a driver's leaks from ours.
 */
int dlclose(void *handle);

__attribute__((visibility("default"))) int dlclose(void *handle) {
  (void)handle;
  return 0;
}
