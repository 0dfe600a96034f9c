// The kernels for AVX-512; compiler flags in host/CMakeLists.txt.
#define WMTP_ISA avx512
#include "engine/model/kernels/attention_impl.hpp"
