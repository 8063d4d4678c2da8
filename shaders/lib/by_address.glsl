// Declares what a kernel reads by address: `FROM_ADDRESS(align) NAME { ... };`. It is volatile only because of Mesa's
// compiler, which at every start of a program compares each load that is not volatile with every load before it. Making
// attention_uniform of width 64 took 0.95 s without volatile and takes 0.3 s with it. The machine code is as fast.
#extension GL_EXT_buffer_reference : require
#define FROM_ADDRESS(align) \
  layout(buffer_reference, std430, buffer_reference_align = align) readonly volatile buffer
