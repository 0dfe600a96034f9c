// The kernels for AVX2; host/CMakeLists.txt sets the compiler flags.
#define WMTP_ISA avx2
#include "model/torch/kernels/attention_impl.hpp"
