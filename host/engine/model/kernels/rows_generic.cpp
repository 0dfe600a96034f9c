// The kernels for any processor; host/CMakeLists.txt sets the compiler flags.
#define WMTP_ISA generic
#include "engine/model/kernels/attention_impl.hpp"
