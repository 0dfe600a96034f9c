// The kernels for any processor; compiler flags in host/CMakeLists.txt.
#define WMTP_ISA generic
#include "engine/model/kernels/attention_impl.hpp"
