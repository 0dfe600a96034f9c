#include "engine/comm/collective_checker.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace wmtp {
namespace {

constexpr int64_t text_size = 208;
static_assert(text_size % sizeof(int64_t) == 0);

std::string words_of(const char* bytes) { return {bytes, strnlen(bytes, text_size)}; }

/// The rank's number is not compared.
std::string what_is_next(const std::string& words) { return words.substr(words.find(' ') + 1); }

}  // namespace

bool collectives_are_checked() {
  if (const char* wish = std::getenv("WMTP_CHECK_COLLECTIVES")) return std::string(wish) == "1";
#ifdef NDEBUG
  return false;
#else
  return true;
#endif
}

std::string disagreement(c10d::Backend& backend, at::Device device, const NextCollective& mine) {
  std::string words = std::to_string(mine.rank) + " " + mine.text;
  words.resize(text_size - 1);
  words.push_back('\0');
  at::Tensor sent = at::empty({text_size}, at::kByte);
  std::memcpy(sent.mutable_data_ptr(), words.data(), text_size);
  sent = sent.to(device);
  at::Tensor all = at::empty({backend.getSize() * text_size}, sent.options());
  backend._allgather_base(all, sent)->wait();
  all = all.cpu();
  const auto* bytes = static_cast<const char*>(all.const_data_ptr());
  bool agree = true;
  std::string told;
  for (int64_t i = 0; i < backend.getSize(); ++i) {
    const std::string of_rank = words_of(bytes + i * text_size);
    agree = agree && what_is_next(of_rank) == what_is_next(words_of(bytes));
    told += (i == 0 ? "rank " : "; rank ") + of_rank.substr(0, of_rank.find(' ')) + " is " + what_is_next(of_rank);
  }
  return agree ? "" : told;
}

}  // namespace wmtp
