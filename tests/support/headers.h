/* The public headers. */
#ifndef VKF_TESTS_SUPPORT_HEADERS_H
#define VKF_TESTS_SUPPORT_HEADERS_H

#define PUBLIC_HEADER(name) VKF_SOURCE_DIR "/include/vkformer/" name
static const char *const public_headers[] = {PUBLIC_HEADER("vkformer.h"), PUBLIC_HEADER("run.h"),
                                             PUBLIC_HEADER("text.h"), PUBLIC_HEADER("vulkan.h"),
                                             PUBLIC_HEADER("lab.h")};
enum { N_PUBLIC_HEADERS = sizeof public_headers / sizeof *public_headers };

#endif
