# Every compute shader that the build compiles and embeds, a row each: "name|source.comp|defines|feature".
# cmake/shaders.cmake explains the columns. A define is only for what changes SPIR-V types or extensions.
set(VKF_SHADERS
)
