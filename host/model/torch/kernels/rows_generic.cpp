// The kernels for any processor; host/CMakeLists.txt sets the compiler flags.
#define WMTP_ISA generic
#include "model/torch/kernels/attention_impl.hpp"
