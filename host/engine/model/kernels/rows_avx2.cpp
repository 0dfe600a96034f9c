// The kernels for one instruction set; its flags stand in host/CMakeLists.txt.
#define WMTP_ISA avx2
#include "engine/model/kernels/attention_impl.hpp"
