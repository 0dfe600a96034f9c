#include "comm/torch/background_store.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/refusal.hpp"
#include "comm/torch/store_text.hpp"

namespace wmtp {
namespace {

Error lost(const std::string& name, const std::string& why) { return Error(ExitStatus::peer, name + ": " + why); }

}  // namespace

void BackgroundStore::set(const std::string& key, const std::string& text) {
  try {
    peers_.store()->set(key, text_to_bytes(text));
  } catch (const std::exception& error) {
    throw lost(name_, error.what());
  }
}

std::string BackgroundStore::get(const std::string& key, int from) {
  try {
    if (!peers_.wait_for_key(key, from, /*until_loss=*/true))
      throw lost(name_, peers_.lost() ? "lost a rank" : "rank " + std::to_string(from) + " did not answer");
    return bytes_to_text(peers_.store()->get(key));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw lost(name_, error.what());
  }
}

std::string BackgroundStore::broadcast(const std::string& rank0_text) {
  if (peers_.size() == 1) return rank0_text;
  const std::string place = key("broadcast");
  if (peers_.rank() != 0) return get(place, 0);
  set(place, rank0_text);
  return rank0_text;
}

std::vector<std::string> BackgroundStore::gather(const std::string& mine) {
  if (peers_.size() == 1) return {mine};
  const std::string place = key("gather") + "/";
  if (peers_.rank() != 0) {
    set(place + std::to_string(peers_.rank()), mine);
    return {};
  }
  std::vector<std::string> texts{mine};
  for (int rank = 1; rank < peers_.size(); ++rank) {
    texts.push_back(get(place + std::to_string(rank), rank));
    peers_.store()->deleteKey(place + std::to_string(rank));
  }
  return texts;
}

std::optional<Error> BackgroundStore::failure_on_any_rank(const std::optional<Error>& mine) {
  std::string first = failure_text(peers_.rank(), mine);
  try {
    for (const std::string& failure : gather(first))
      if (first.empty()) first = failure;
  } catch (const Error& lost) {
    if (first.empty()) first = refusal_text(lost);
  }
  return parse_refusal(broadcast(first));
}

}  // namespace wmtp
