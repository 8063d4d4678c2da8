/* Empty: posix.h has what belongs here. */
