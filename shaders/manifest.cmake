# Every compute shader that the build compiles and embeds, a row each: "name|source.comp|defines|feature".
# cmake/shaders.cmake explains the columns. A define is only for what changes SPIR-V types or extensions.
set(VKF_SHADERS
  "embed|embed.comp|"
  "matmul_naive|matmul_naive.comp|"
  "matmul_shared|matmul_shared.comp|"
  "matmul_lane|matmul_lane.comp|"
  "matmul_lane_texel|matmul_lane.comp|TEXEL"
  "matmul_lane_broadcast_m16|matmul_lane.comp|BROADCAST TM=16"
  "matmul_lane_broadcast_m4|matmul_lane.comp|BROADCAST TM=4"
  "matmul_lane_broadcast_m1|matmul_lane.comp|BROADCAST TM=1"
  "matmul_direct|matmul_direct.comp|"
  "matmul_direct_rows|matmul_direct.comp|X_ROWS"
  "attention|attention.comp|"
  "attention_weights|attention_weights.comp|"
  "norm|norm.comp|"
  "norm_subgroup|norm_subgroup.comp|"
  "append|append.comp|"
  "gather|gather.comp|"
  "log_softmax|log_softmax.comp|"
  "edit|edit.comp|"
  "top_k|top_k.comp|"
)
