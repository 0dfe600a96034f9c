// A hand-made call of one linear layer: a plain weight and plain parameters, which autograd differentiates.
#pragma once

#include <map>
#include <wmtp/adapter.hpp>

namespace wmtp::test {

class FakeCall final : public LinearCall {
 public:
  FakeCall(Tensor weight, std::map<std::string, Tensor> params)
      : weight_(std::move(weight)), params_(std::move(params)) {}

  double dropped = -1;  ///< probability in the last call of dropout()
  Tensor dropout_input;

  bool training() const override { return true; }
  Tensor base(const Tensor& x) override { return at::matmul(x, weight_.t()); }
  Tensor linear(const Tensor& x, const std::string& param) override { return at::matmul(x, params_.at(param).t()); }
  Tensor scale(const Tensor& x, const std::string& param) override { return x * params_.at(param); }
  Tensor weight() override { return weight_.detach(); }
  Tensor value(const std::string& param) override { return params_.at(param).detach(); }
  Tensor dropout(const Tensor& x, double p) override {
    dropped = p;
    dropout_input = x;
    return x;
  }

 private:
  Tensor weight_;
  std::map<std::string, Tensor> params_;
};

}  // namespace wmtp::test
