// The boundary of an adapter: every call of a GuardedAdapter goes through `guarded`, and what the plugin returns is
// checked before anything else sees it. An adapter that throws, or returns a tensor of another shape, type or device
// than the sdk promises, becomes Error(plugin) with the plugin's name and the call. [engine]
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
  std::vector<Param> declare(const Linear& layer) const override;
  Tensor forward(const Linear& layer, const Tensor& x, LinearCall& call) const override;
  Tensor merged(const Linear& layer, const Tensor& weight, const std::vector<Tensor>& params) const override;

 private:
  std::string plugin_;
  std::unique_ptr<Adapter> adapter_;
  const LinearAdapter* linear_;  ///< the same adapter; null where it adds nothing
};

}  // namespace wmtp
