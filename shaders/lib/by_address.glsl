// What a kernel reads by address is `FROM_ADDRESS(align) NAME { ... };`. It is volatile for the sake of Mesa's compiler
// alone, which compares each load of what is not with every load before it, at every start of a program: it took 1.2 s
// for attention_uniform at width 64, and takes 0.3 s so. What it makes of the loads is the same.
#extension GL_EXT_buffer_reference : require
#define FROM_ADDRESS(align) \
  layout(buffer_reference, std430, buffer_reference_align = align) readonly volatile buffer
