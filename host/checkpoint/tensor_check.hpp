// Checks that files contain the tensors of a model, and reports every missing, misshapen or unexpected tensor at once.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/safetensors_folder.hpp"

namespace wmtp {

class TensorCheck {
 public:
  /// `files` must outlive the check.
  explicit TensorCheck(const SafetensorsFolder& files) : files_(files) {}
  /// The tensor if it has this shape and a weight dtype; otherwise records a mistake.
  std::optional<StoredTensor> take(const std::string& name, const std::vector<int64_t>& shape);
  /// Records every tensor that was not taken, except those that `is_allowed` accepts.
  void check_rest(const std::function<bool(const std::string&)>& is_allowed = nullptr);
  const std::vector<std::string>& mistakes() const { return mistakes_; }

 private:
  const SafetensorsFolder& files_;
  std::set<std::string> taken_;
  std::vector<std::string> mistakes_;
};

/// Error(data) listing the mistakes, at most 1,000 of them; returns if there are none.
void refuse_tensors(const std::string& where, const std::vector<std::string>& mistakes, const std::string& advice);

}  // namespace wmtp
