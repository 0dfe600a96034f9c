// The kernels for one instruction set; its flags stand in host/CMakeLists.txt.
#define WMTP_ISA generic
#include "model/kernels/products_impl.hpp"
#include "model/kernels/rows_impl.hpp"

#include "model/kernels/attention_impl.hpp"
