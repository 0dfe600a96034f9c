// WeightStore: how operations read weights and add their gradients, independently of storage and sharding.
#pragma once

#include <ATen/ATen.h>

#include <utility>

namespace wmtp {

class WeightStore {
 public:
  virtual ~WeightStore() = default;
  /// The parameter in the compute dtype and its own shape. Valid only while its unit is gathered.
  virtual at::Tensor weight(int index) = 0;
  virtual bool trains(int index) const = 0;
  /// gradient += left^T right, with left [N,rows], right [N,columns] in the compute dtype.
  virtual void add_product(int index, const at::Tensor& left, const at::Tensor& right) = 0;
  /// gradient += value, in the parameter's shape.
  virtual void add_gradient(int index, const at::Tensor& value) = 0;
  /// gradient[rows[i]] += values[i].
  virtual void add_rows(int index, const at::Tensor& rows, const at::Tensor& values) = 0;
};

/// While one lives, backward passes of its thread compute the gradients of inputs and add none to weights.
class InputGradientsOnly {
 public:
  InputGradientsOnly() : before_(std::exchange(active_, true)) {}
  ~InputGradientsOnly() { active_ = before_; }
  InputGradientsOnly(const InputGradientsOnly&) = delete;
  InputGradientsOnly& operator=(const InputGradientsOnly&) = delete;
  static bool active() { return active_; }

 private:
  static inline thread_local bool active_ = false;
  bool before_;
};

/// A parameter of a store.
struct WeightHandle {
  WeightStore* store = nullptr;
  int index = -1;

  at::Tensor weight() const { return store->weight(index); }
  bool trains() const { return store->trains(index) && !InputGradientsOnly::active(); }
};

}  // namespace wmtp
