#include "engine/checkpoint/state_pieces.hpp"

#include <array>
#include <utility>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "core/checkpoints/manifest_sums.hpp"
#include "core/formats/safetensors/safetensors.hpp"
#include "io/save_points.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using nlohmann::json;

/// In the order of state_dtype_names.
constexpr std::array<at::ScalarType, state_dtype_names.size()> dtypes{
    at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kByte, at::kBool};

json slice_json(const Slice& s) { return {s.tensor, s.shape, s.begin, s.end, s.file, s.entry, s.crc32c}; }

Slice slice_of(const json& j) { return {j[0], j[1].get<std::vector<int64_t>>(), j[2], j[3], j[4], j[5], j[6]}; }

/// Writes in two parts, so that a test can end the process between them.
void write_piece(SafetensorsWriter& writer, Piece& piece, bool half_a_file) {
  const auto* bytes = static_cast<const char*>(piece.values.const_data_ptr());
  const auto count = size_t(piece.values.nbytes());
  const size_t half = count / 2;
  writer.write(piece.slice.entry, 0, bytes, half);
  if (half_a_file) reached(SavePoint::half_a_file);
  writer.write(piece.slice.entry, int64_t(half), bytes + half, count - half);
  piece.slice.crc32c = crc32c(bytes, count);
}

}  // namespace

const char* state_dtype_name(at::ScalarType dtype) {
  for (size_t i = 0; i < dtypes.size(); ++i)
    if (dtypes[i] == dtype) return state_dtype_names[i];
  throw Error(ExitStatus::storage,
              std::string("a plugin's state of dtype ") + c10::toString(dtype) + " cannot be saved");
}

at::ScalarType state_dtype(const std::string& name) {
  for (size_t i = 0; i < dtypes.size(); ++i)
    if (name == state_dtype_names[i]) return dtypes[i];
  throw Error(ExitStatus::data, "checkpoint: dtype " + name + " is not a dtype of saved state");
}

std::vector<StateFlat> state_flats(ShardedOptimizer& optimizer) {
  std::vector<StateFlat> flats;
  for (ShardedOptimizer::State& state : optimizer.states()) {
    if (!state.group->counts_in_norm()) continue;  // a replica; another rank writes it
    flats.push_back({parameter_prefix, state.group, state.group->master().detach()});
    flats.push_back({average_prefix, state.group, state.exp_avg.detach()});
    flats.push_back({square_prefix, state.group, state.exp_avg_sq.detach()});
  }
  return flats;
}

std::vector<Piece> pieces_of(const std::vector<StateFlat>& flats, const std::map<std::string, Tensor>& tensors,
                             int rank) {
  std::vector<Piece> pieces;
  const std::string file = rank_file_name(rank);
  const auto add = [&](const std::string& tensor, std::vector<int64_t> shape, int64_t begin, const Tensor& part) {
    const Tensor values = part.contiguous();
    pieces.push_back({{tensor, std::move(shape), begin, begin + values.numel(), file, tensor, 0}, values});
  };
  for (const StateFlat& flat : flats)
    flat.group->for_each_part(flat.values, [&](const Placed& placed, int64_t begin, const Tensor& part) {
      add(flat.prefix + placed.spec.name, placed.spec.shape, begin, part);
    });
  if (rank == 0)
    for (const auto& [name, tensor] : tensors) add(pipeline_prefix + name, tensor.sizes().vec(), 0, tensor.flatten());
  return pieces;
}

std::string write_rank_file(const std::filesystem::path& folder, std::vector<Piece>& pieces, int rank) {
  try {
    std::vector<TensorEntry> entries;
    for (const Piece& piece : pieces)
      entries.push_back({piece.slice.entry, state_dtype_name(piece.values.scalar_type()), {piece.values.numel()}});
    SafetensorsWriter writer(folder / rank_file_name(rank), std::move(entries), {});
    json slices = json::array();
    for (size_t i = 0; i < pieces.size(); ++i) {
      write_piece(writer, pieces[i], i == pieces.size() / 2);
      slices.push_back(slice_json(pieces[i].slice));
    }
    reached(SavePoint::file_written);
    writer.finish();
    reached(SavePoint::file_synced);
    return json{{"slices", slices}}.dump();
  } catch (const std::exception& error) {
    return json{{"error", error.what()}}.dump();
  }
}

std::vector<Slice> slices_of_report(const std::string& report) {
  const json parsed = json::parse(report);
  if (parsed.contains("error")) throw Error(ExitStatus::storage, parsed["error"].get<std::string>());
  std::vector<Slice> slices;
  for (const json& slice : parsed["slices"]) slices.push_back(slice_of(slice));
  return slices;
}

}  // namespace wmtp
