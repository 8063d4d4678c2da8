// dot4(a, b): the sum of the products of four signed 8-bit numbers in a word (OpSDotKHR of SPV_KHR_integer_dot_product,
// for which GLSL has no name).
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int sdot(uint a, uint b, spirv_literal int form);
int dot4(uint a, uint b) { return sdot(a, b, 0 /* PackedVectorFormat4x8Bit */); }
