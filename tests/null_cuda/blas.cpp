// cuBLAS on the null device: counts products by shape.
#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstring>
#include <string>

#include "activity.hpp"

namespace {

cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;

cublasStatus_t product(const char* call, int m, int n, int k, int batch = 1) {
  null_cuda::count_launch(std::string(call) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" +
                          std::to_string(k) + (batch > 1 ? " times " + std::to_string(batch) : ""));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = reinterpret_cast<cublasHandle_t>(new int);  // each thread has its own, with a workspace
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t mode) {
  math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t* mode) {
  *mode = math_mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t, cublasPointerMode_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t, cublasPointerMode_t* mode) {
  *mode = CUBLAS_POINTER_MODE_HOST;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const void*,
                            const void*, cudaDataType, int, const void*, cudaDataType, int, const void*, void*,
                            cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t) {
  return product("cublasGemmEx", m, n, k);
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                          const void*, const void*, cudaDataType, int, long long, const void*,
                                          cudaDataType, int, long long, const void*, void*, cudaDataType, int,
                                          long long, int batch, cublasComputeType_t, cublasGemmAlgo_t) {
  return product("cublasGemmStridedBatchedEx", m, n, k, batch);
}
cublasStatus_t cublasSgemm_v2(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const float*,
                              const float*, int, const float*, int, const float*, float*, int) {
  return product("cublasSgemm", m, n, k);
}
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                         const float*, const float*, int, long long, const float*, int, long long,
                                         const float*, float*, int, long long, int batch) {
  return product("cublasSgemmStridedBatched", m, n, k, batch);
}
cublasStatus_t cublasSgemv_v2(cublasHandle_t, cublasOperation_t, int m, int n, const float*, const float*, int,
                              const float*, int, const float*, float*, int) {
  return product("cublasSgemv", m, n, 1);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t* found,
                                              int* count) {
  std::memset(found, 0, sizeof *found);
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t,
                              const void*, cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t,
                              void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t) {
  null_cuda::count_launch("cublasLtMatmul");
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
