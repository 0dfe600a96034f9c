// The kernels for AVX2; compiler flags in host/CMakeLists.txt.
#define WMTP_ISA avx2
#include "engine/model/kernels/attention_impl.hpp"
