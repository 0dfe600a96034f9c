// The kernels for AVX-512 and AMX; host/CMakeLists.txt sets the compiler flags.
#define WMTP_ISA amx
#include "model/torch/kernels/attention_impl.hpp"
