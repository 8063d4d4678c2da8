/* windows: linked into programs: their standard streams carry bytes, as elsewhere. */
__attribute__((constructor)) static void carry_bytes(void) {
  _fmode = _O_BINARY;
  for (int fd = 0; fd < 3; fd++) _setmode(fd, _O_BINARY);
}
