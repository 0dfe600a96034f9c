// The boundary of an adapter: every call goes through `guarded`, and the plugin's result is checked before it is used.
// An adapter that throws, or returns a tensor whose shape, dtype or device violates the sdk, causes Error(plugin) with
// the plugin's name and the call. [engine]
#pragma once

#include <memory>
#include <string>
#include <vector>
#include <wmtp/adapter.hpp>

namespace wmtp {

class GuardedAdapter final : public LinearAdapter {
 public:
  GuardedAdapter(std::string plugin, std::unique_ptr<Adapter> adapter);
  bool trains(const std::string& parameter) const override;
  /// Error(usage) if the adapter refuses an option.
  void check(const std::vector<Linear>& layers) const override;
  std::vector<Param> declare(const Linear& layer) const override;
  Tensor forward(const Linear& layer, const Tensor& x, LinearCall& call) const override;
  Tensor merged(const Linear& layer, const Tensor& weight, const std::vector<Tensor>& params) const override;

 private:
  std::string plugin_;
  std::unique_ptr<Adapter> adapter_;
  const LinearAdapter* linear_;  ///< the same adapter; null if it adds no parameters
};

}  // namespace wmtp
