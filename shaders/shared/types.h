/* Types of the structs that C and GLSL both read: 32-bit unsigned integer and 32-bit float. */
#ifndef VKF_SHARED_TYPES_H
#define VKF_SHARED_TYPES_H

#ifdef GL_core_profile
#define VKF_UINT uint
#define VKF_FLOAT float
#else
#include <stdint.h>
#define VKF_UINT uint32_t
#define VKF_FLOAT float
#endif

#endif
