// The kernels for AVX-512; host/CMakeLists.txt sets the compiler flags.
#define WMTP_ISA avx512
#include "model/torch/kernels/attention_impl.hpp"
