/* windows: linked into programs. Makes their standard streams binary, as elsewhere, and sets TMPDIR, unless it is set,
 * to the folder of temporary files. */
__attribute__((constructor)) static void be_posix(void) {
  _fmode = _O_BINARY;
  for (int fd = 0; fd < 3; fd++) _setmode(fd, _O_BINARY);
  if (getenv("TEMP")) setenv("TMPDIR", getenv("TEMP"), 0);
}
