#include "comm/torch/collective_checker.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/environment.hpp"

namespace wmtp {
namespace {

constexpr int64_t text_size = 208;
static_assert(text_size % sizeof(int64_t) == 0);

std::string text_at(const char* bytes) { return {bytes, strnlen(bytes, text_size)}; }

/// Removes the rank, which is not compared.
std::string collective_in(const std::string& text) { return text.substr(text.find(' ') + 1); }

}  // namespace

bool collectives_are_checked() {
  if (const std::string setting = environment_value("WMTP_CHECK_COLLECTIVES"); !setting.empty()) return setting == "1";
#ifdef NDEBUG
  return false;
#else
  return true;
#endif
}

std::string sizes_text(const at::Tensor& input, const at::Tensor& output) {
  return std::to_string(input.numel()) + " " + c10::toString(input.scalar_type()) + " to " +
         std::to_string(output.numel());
}

std::string disagreement(c10d::Backend& backend, at::Device device, const NextCollective& mine) {
  std::string text = std::to_string(mine.rank) + " " + mine.text;
  text.resize(text_size - 1);
  text.push_back('\0');
  at::Tensor sent = at::empty({text_size}, at::kByte);
  std::memcpy(sent.mutable_data_ptr(), text.data(), text_size);
  sent = sent.to(device);
  at::Tensor all = at::empty({backend.getSize() * text_size}, sent.options());
  backend._allgather_base(all, sent)->wait();
  all = all.cpu();
  const auto* bytes = static_cast<const char*>(all.const_data_ptr());
  bool agree = true;
  std::string list;
  for (int64_t i = 0; i < backend.getSize(); ++i) {
    const std::string of_rank = text_at(bytes + i * text_size);
    agree = agree && collective_in(of_rank) == collective_in(text_at(bytes));
    list += (i == 0 ? "rank " : "; rank ") + of_rank.substr(0, of_rank.find(' ')) + " is " + collective_in(of_rank);
  }
  return agree ? "" : list;
}

}  // namespace wmtp
