#include "train/assembly.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/normal_path.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "checkpoint/torch/adapter_files.hpp"
#include "checkpoint/torch/model_files.hpp"
#include "checkpoint/verify.hpp"
#include "data/records/record_selection.hpp"
#include "data/tokens/step_count.hpp"
#include "data/torch/sources.hpp"
#include "experiment/device_rules.hpp"
#include "experiment/key_place.hpp"
#include "huggingface/initial_weights.hpp"
#include "huggingface/params_file.hpp"
#include "io/input_file.hpp"
#include "job/find_model.hpp"
#include "job/input_checks.hpp"
#include "job/named_weights.hpp"
#include "job/weights_hash.hpp"
#include "memory/caught_error.hpp"
#include "model/torch/precision_dtype.hpp"
#include "plugins/torch/loader.hpp"
#include "shard/whole_parameters.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "train/frozen_models.hpp"

namespace wmtp {
namespace {

/// The files of a folder, with checksums.
std::vector<Peers::Input> folder_inputs(const std::filesystem::path& folder) {
  std::vector<Peers::Input> files;
  for (const std::filesystem::path& path : paths_in(folder)) {
    const InputFile file(path);
    files.push_back({path.string(), printed("%08x", crc32c_range(file, 0, file.size())), {}});
  }
  return files;
}

/// The ids that end a text of the initial weights in `folder`, if they have the tokenizer of the prepared data.
std::vector<int64_t> ends_with_tokenizer(const std::filesystem::path& folder, const Prepared& data, bool is_byte) {
  if (!data.tokenizer || !std::filesystem::is_directory(folder)) return {};
  if (is_byte && read_model_tokenizer(folder).kind == SavedTokenizer::byte) return end_tokens(folder);
  const auto theirs = tokenizer_file_in(folder), ours = tokenizer_file_in(data.folder);
  const bool are_there = is_there(theirs) && is_there(ours);
  return are_there && file_sha256_hex(theirs) == file_sha256_hex(ours) ? end_tokens(folder) : std::vector<int64_t>();
}

/// Every writer prepares the data. Their files are compared, because hosts that train a tokenizer on the same text
/// could get different ones.
Prepared open_data(Session& session, const Experiment& experiment, bool weights,
                   const std::function<void(const std::string&)>& log) {
  Peers& peers = session.peers();
  if (session.is_writer()) prepare_data(experiment, session.cache_folder(), log, weights);
  if (!session.writers().is_shared_folder()) peers.gather("preparing the data", "prepared");
  peers.broadcast("preparing the data", "prepared");
  Prepared prepared = open_prepared(experiment, session.cache_folder(), session.data_ranks(), weights);
  if (session.writers().is_shared_folder()) return prepared;
  std::vector<Peers::Input> inputs;
  for (const std::filesystem::path& folder : {prepared.folder, prepared.weights_folder})
    if (session.is_writer() && !folder.empty()) std::ranges::move(folder_inputs(folder), std::back_inserter(inputs));
  peers.check_inputs(inputs);
  return prepared;
}

/// [vocab_size] fp32: the length of each token's text; ids that the tokenizer lacks, and special tokens, have none.
at::Tensor token_bytes(const Tokenizer& tokenizer, int64_t vocab_size) {
  std::vector<float> bytes(size_t(vocab_size), 0.0F);
  for (int32_t id = 0; id < std::min(vocab_size, tokenizer.vocab_size()); ++id)
    if (!tokenizer.decode({id}).empty()) bytes[size_t(id)] = float(tokenizer.piece(id).size());
  return at::tensor(bytes);
}

ActivePipeline pipeline_of(const RunIdentity& identity, const Experiment& experiment) {
  std::optional<PluginSetting> inner;
  if (identity.inner) inner = PluginSetting{*identity.inner, given_options(*experiment.inner)};
  ActivePipeline pipeline =
      open_pipeline({identity.pipeline, given_options(experiment.pipeline)}, inner ? &*inner : nullptr, experiment);
  if (identity.auxiliary_loss)
    add_auxiliary_loss({*identity.auxiliary_loss, given_options(*experiment.auxiliary_loss)}, experiment, pipeline);
  return pipeline;
}

/// If the data determine the number of steps, what depends on it can be checked only here.
void refuse_misfit_of_steps(const Experiment& experiment, int64_t steps) {
  if (experiment.log.profile_step > steps)
    throw Error(ExitStatus::usage, experiment.file.string() +
                                       ": [log] profile_step = " + std::to_string(experiment.log.profile_step) +
                                       " is after the last step of a run of " + std::to_string(steps) + "; lower it");
  const ScheduleConfig& schedule = experiment.schedule;
  if (schedule.warmup_steps >= steps)
    throw Error(ExitStatus::usage, experiment.file.string() +
                                       ": [schedule] warmup_steps = " + std::to_string(schedule.warmup_steps) +
                                       " take all of a run of " + std::to_string(steps) + "; lower them");
  if (schedule.warmup_steps + schedule.stable_steps >= steps)
    throw Error(ExitStatus::usage,
                experiment.file.string() + ": [schedule] warmup_steps = " + std::to_string(schedule.warmup_steps) +
                    " and stable_steps = " + std::to_string(schedule.stable_steps) +
                    " leave no steps for the decay in a run of " + std::to_string(steps) + "; lower them");
}

/// The bytes of the previous losses on this host, which each of its ranks with the heads holds, and rank 0 twice while
/// it saves them and goes on training.
double bytes_of_losses(const Session& session, const CheckpointConfig& checkpoint, int ranks_with_heads,
                       double of_rank) {
  const std::vector<RankLocation>& locations = session.peers().locations();
  const std::string& here = locations.at(size_t(session.rank())).host;
  const bool saves = checkpoint.every_steps > 0 || checkpoint.every_epochs > 0 || checkpoint.every_minutes > 0;
  double bytes = 0;
  for (int rank = 0; rank < ranks_with_heads; ++rank)
    if (locations.at(size_t(rank)).host == here) bytes += of_rank * (rank == 0 && saves ? 2 : 1);
  return bytes;
}

/// Before any rank allocates them: a host that has too little memory would otherwise end a rank without a message.
void check_previous_losses(Session& session, const Experiment& experiment, const ActivePipeline& pipeline,
                           const BatchSource& source, int64_t steps) {
  if (!pipeline.reads(Signal::policy_previous_loss)) return;
  const TrainConfig& train = experiment.train;
  const int64_t windows = source.windows(), heads = experiment.model.future_tokens;
  const double of_rank = PreviousLosses::bytes(windows, train.sequence_length, heads),
               needed = bytes_of_losses(session, experiment.checkpoint, session.section_channels().size(), of_rank);
  std::optional<Error> failure;
  if (const auto available = available_memory(); available && needed > double(*available))
    failure.emplace(
        ExitStatus::usage,
        experiment.file.string() + ": pipeline '" + pipeline.name + "' reads " + previous_loss + ": the losses of " +
            counted(windows, "window") + " of " + with_thousands(train.sequence_length) + " tokens by " +
            counted(heads, "head") + " take " + human_bytes(int64_t(of_rank)) +
            " on each rank that has the heads, and on its host " + human_bytes(int64_t(needed)) + "; found " +
            human_bytes(*available) +
            " of free memory: use fewer data, fewer ranks on a host, or a pipeline that does not read them");
  session.peers().rethrow_on_all_ranks("measuring the memory for previous losses", failure);
  if (session.is_rank0() && steps * sequences_per_step(train, session.data_ranks()) <= source.count())
    log_warning("pipeline '" + pipeline.name + "' reads " + previous_loss + ", but in " + counted(steps, "step") +
                " the run reads no token twice, so that it is always the present loss");
}

/// Error(data) if the data say of no answer whether it is right, and something learns from nothing else: its loss would
/// be 0 everywhere. What a value head learns from other data than records, only its plugin knows.
void refuse_unknown_outcomes(const Experiment& experiment, const ActivePipeline& pipeline, const Prepared& data) {
  const auto learns_outcome = [](const ValueHead& head) { return head.meaning == "value"; };
  const bool is_value =
      data.records && !pipeline.needs.pairs && std::ranges::any_of(pipeline.needs.heads, learns_outcome);
  const bool is_auxiliary = pipeline.auxiliary_loss && pipeline.auxiliary_loss->needs.correct;
  const auto is_known = [](const RecordEntry& entry) { return entry.correct >= 0; };
  if ((!is_value && !is_auxiliary) || (data.records && std::ranges::any_of(data.records->entries(), is_known))) return;
  throw Error(ExitStatus::data, experiment.file.string() + ": " +
                                    (data.records ? "no record of data.files has is_correct"
                                                  : std::string("data of kind \"") + to_string(experiment.data.kind) +
                                                        "\" say of no answer whether it is right") +
                                    ", but " +
                                    (is_value ? "the value head of pipeline '" + pipeline.name
                                              : "auxiliary loss '" + pipeline.auxiliary_loss->name) +
                                    "' learns from right and wrong answers" +
                                    (data.records ? "; add it to the records" : ""));
}

/// Answers marked as wrong, which nothing that trains tells from right ones.
void warn_of_wrong_answers(const Experiment& experiment, const ActivePipeline& pipeline, const Prepared& data) {
  if (!data.records || experiment.data.select != AnswerSelection::all) return;
  const bool tells_apart = pipeline.needs.pairs || !pipeline.needs.heads.empty() || pipeline.frozen.contains("value") ||
                           pipeline.reads(Signal::data_correct) || pipeline.reads(Signal::data_pass_rate) ||
                           pipeline.reads(Signal::data_weight);
  if (tells_apart) return;
  const auto wrong = std::ranges::count_if(
      data.records->entries(), [](const RecordEntry& one) { return one.correct == 0 && one.held_out == 0; });
  if (wrong > 0)
    log_warning(counted(wrong, "wrong answer") + " (is_correct = false, or rejected) " + (wrong == 1 ? "is" : "are") +
                " learned like right ones: pipeline '" + pipeline.name +
                "' reads nothing that tells them apart; data.select = \"correct\" leaves them out");
}

/// Pairs whose answers are in different bins of data.length_bins. `found`: those that are trained on.
void warn_of_lost_pairs(const Experiment& experiment, const ActivePipeline& pipeline, const Prepared& data,
                        int64_t found) {
  if (!pipeline.needs.pairs || experiment.data.length_bins.empty()) return;
  Experiment without_bins = experiment;
  without_bins.data.length_bins.clear();
  int64_t all = 0;
  for (const auto& list : select_records(without_bins, *data.records, RecordPart::train, /*pairs=*/true).records)
    all += int64_t(list.size()) / 2;
  if (found < all)
    log_warning(with_thousands(found) + " of " + counted(all, "pair") +
                " are trained on: the answers of the others are in different bins of data.length_bins; [] keeps them");
}

bool freezes(const ShardedModel& model) {
  return std::ranges::any_of(parameter_sets(model), [](const ParameterSet& set) { return !set.trains; });
}

[[noreturn]] void rethrow_while_made() {
  rethrow_from("while the model was made",
               "use a smaller model, shard it over more ranks, or close other programs that use memory");
}

}  // namespace

void refuse_several_answers(const Experiment& experiment, const ActivePipeline& pipeline, const Prepared& data) {
  if (!data.records || (pipeline.needs.heads.empty() && !pipeline.frozen.contains("value"))) return;
  const auto has_several = [&](const RecordEntry& entry) { return data.records->has_several_answers(entry); };
  const auto several = std::ranges::count_if(data.records->entries(), has_several);
  if (several > 0)
    throw Error(ExitStatus::data, experiment.file.string() + ": " + counted(several, "record") +
                                      " of data.files or of the validation have several answers, but the pipeline " +
                                      experiment.pipeline.plugin +
                                      " reads values of one answer in each sequence; write a record for each answer, "
                                      "with the messages before it as its prompt");
}

Assembly::Assembly(Session& session, const Experiment& experiment, const RunIdentity& identity, const Stages& stages,
                   const std::function<void(const std::string&)>& log)
    : session_(session),
      experiment_(experiment),
      pipeline_(pipeline_of(identity, experiment)),
      adapter_(create_adapter(identity.adapter, given_options(experiment.adapter))),
      data_(open_data(session, experiment, pipeline_.reads(Signal::data_weight), log)),
      model_(build_policy()) {
  refuse_several_answers(experiment, pipeline_, data_);
  refuse_unknown_outcomes(experiment, pipeline_, data_);
  const BatchRequest request = batch_request(experiment, pipeline_, data_, session.device());
  const int64_t data_ranks = session.data_ranks();
  training_source_ = training_batches(experiment, data_, request, data_ranks);
  if (session.is_rank0()) {
    warn_of_wrong_answers(experiment, pipeline_, data_);
    warn_of_lost_pairs(experiment, pipeline_, data_, training_source_->count() / 2);
  }
  validation_source_ = validation_batches(experiment, data_, request);
  const TrainConfig& train = experiment.train;
  TrainerData data{training_source_.get(), validation_source_.get(), 0};
  if (validation_source_)
    data.validation_sequences = std::min(validation_source_->count(), experiment.validation.batches * train.batch_size);
  warn_of_unread_validation(data.validation_sequences);
  const int64_t steps = num_steps(train, training_source_->count(), data_ranks);
  refuse_misfit_of_steps(experiment, steps);
  check_previous_losses(session, experiment, pipeline_, *training_source_, steps);
  trainer_ = std::make_unique<Trainer>(experiment, steps, *model_, pipeline_,
                                       open_frozen(session, experiment, stages, pipeline_, data_), data,
                                       session.section_channels());
  fill_policy(stages);  // after the optimizer, in whose file the masters may be
  ends_ = ends_with_tokenizer(started_from_, data_, experiment.data.tokenizer.kind == TokenizerKind::byte);
}

/// Windows of text are read from the first file on; records are drawn from all files.
void Assembly::warn_of_unread_validation(int64_t sequences) const {
  if (session_.rank() != 0 || data_.records || experiment_.validation.files.size() < 2) return;
  if (validation_source_ && sequences < validation_source_->count())
    log_warning("a validation reads only the first " + with_thousands(sequences) + " of the " +
                counted(validation_source_->count(), "window") +
                " of validation.files, in the order of the files; raise validation.batches to read all");
}

ModelTokenizer Assembly::tokenizer() const {
  if (!data_.tokenizer) return {};
  const bool is_json = std::filesystem::exists(data_.folder / tokenizer_json_name);
  const bool is_byte = experiment_.data.tokenizer.kind == TokenizerKind::byte;
  std::vector<int64_t> ends{data_.tokenizer->end_of_text()};
  const auto add = [&](int64_t id) {
    if (id >= 0 && std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  };
  std::ranges::for_each(ends_, add);
  add(data_.answer_end);
  return {is_json   ? SavedTokenizer::tokenizer_json
          : is_byte ? SavedTokenizer::byte
                    : SavedTokenizer::bpe,
          data_.folder / (is_json ? tokenizer_json_name : tokenizer_model_name),
          nullptr,
          token_ids_json(ends),
          data_.prompt_template,
          "",
          ends_.empty() ? "" : started_from_};
}

std::optional<BaseModel> Assembly::base_model() const {
  if (!freezes(*model_)) return std::nullopt;
  BaseModel base;
  if (!started_from_.empty()) {
    base.weights = started_from_.string();
    base.weights_hash = weights_content_hash(started_from_, session_.job().database);
  }
  base.seed = experiment_.seed;
  base.new_heads = experiment_.model.new_heads;
  base.token_heads = !pipeline_.objective;
  base.precision = to_string(experiment_.parallel.precision);
  base.adapter = experiment_.adapter.plugin;
  base.options = given_options(experiment_.adapter);
  base.last_blocks = experiment_.trained_parts.last_blocks;
  base.names = experiment_.trained_parts.names;
  return base;
}

std::optional<double> Assembly::epoch() const {
  const int64_t sequences = training_source_->count();
  if (sequences == std::numeric_limits<int64_t>::max()) return std::nullopt;
  return double(trainer_->state().drawn) / double(sequences);
}

void Assembly::resume_with_world_size(int64_t saved_world_size) {
  const TrainerState& state = trainer_->state();
  if (experiment_.data.difficulty.given)
    throw Error(ExitStatus::data,
                "--resume: the checkpoint was saved after " + counted(state.drawn, "sequence") + " in " +
                    counted(state.step, "step") + ", this run reads " +
                    std::to_string(sequences_per_step(experiment_.train, session_.data_ranks())) +
                    " in each, and with [data.difficulty] the order of the records depends on that number; resume with "
                    "--nproc " +
                    std::to_string(saved_world_size) + " and the parallel.sequence and tensor of that run");
  if (session_.rank() == 0)
    log_warning("--resume: each step now reads " +
                counted(sequences_per_step(experiment_.train, session_.data_ranks()), "sequence") +
                ", another number than before the checkpoint, because other ranks read the same sequences; --nproc " +
                std::to_string(saved_world_size) +
                " and the parallel.sequence, tensor and pipeline of that run keep it as it was");
  trainer_->set_num_steps(
      num_steps(experiment_.train, training_source_->count(), session_.data_ranks(), {state.step, state.drawn}));
}

std::unique_ptr<ShardedModel> Assembly::build_policy() const try {
  for (const auto& [key, found, remedy] : device_misfits(experiment_.parallel, !session_.device().is_cpu()))
    throw Error(ExitStatus::usage, experiment_.file.string() + ": [parallel] " + found + "; " + remedy);
  ShardedModelRequest request = policy_request(experiment_, pipeline_, *adapter_, session_.device());
  request.section = section_of(session_.section_channels());
  auto model = std::make_unique<ShardedModel>(request, session_.section_channels());
  check_frozen_parameters(experiment_, freezes(*model));
  return model;
} catch (const Error& error) {
  if (error.status() != ExitStatus::usage) rethrow_while_made();
  throw Error(error.status(), with_place(error.what(), experiment_));
} catch (...) {
  rethrow_while_made();
}

void Assembly::fill_policy(const Stages& stages) try {
  model_->initialize(experiment_.seed);
  const ModelConfig& config = experiment_.model;
  if (const auto weights = initial_weights(session_, experiment_, stages, "model", config.weights); !weights.empty()) {
    load_model(weights, *model_);
    started_from_ = absolute_path(weights);
    if (session_.is_rank0())
      for (const std::string& warning : weight_warnings("model", weights, config, experiment_, data_.folder))
        log_warning(warning);
  }
  if (!experiment_.adapter_weights.empty())
    load_adapter(resolve_adapter(experiment_, session_.job().database),
                 {experiment_.adapter.plugin, "", experiment_.adapter.options}, *model_);
} catch (...) {
  rethrow_while_made();
}

Section section_of(const Channels& channels) { return {channels.section_index(), channels.sections()}; }

GroupOptions group_options(const ParallelConfig& parallel, at::Device device) {
  return {parallel.strategy,
          precision_dtype(parallel.precision),
          device,
          int(parallel.shard_group_size),
          precision_dtype(parallel.reduce),
          parallel.replicate_frozen,
          parallel.cpu_offload,
          parallel.optimizer_offload != OptimizerOffload::none};
}

ShardedModelRequest policy_request(const Experiment& experiment, const ActivePipeline& pipeline, const Adapter& adapter,
                                   const at::Device& device) {
  ShardedModelRequest request;
  request.spec.model = &experiment.model;
  request.spec.heads = pipeline.objective ? Heads::none : Heads::all;
  request.spec.adapter = &adapter;
  request.spec.value_heads = pipeline.needs.heads;
  request.spec.optimizer = experiment.optimizer;
  request.spec.trained_parts = experiment.trained_parts;
  request.options = group_options(experiment.parallel, device);
  request.sequence_length = experiment.train.sequence_length;
  return request;
}

ShardedModelRequest frozen_request(const Experiment& experiment, const FrozenConfig& table, const ModelConfig& shape,
                                   const FrozenHeads& heads, const at::Device& device) {
  ParallelConfig parallel = experiment.parallel;
  parallel.strategy = table.strategy.value_or(parallel.strategy);
  parallel.precision = table.precision.value_or(parallel.precision);
  parallel.replicate_frozen = false;  // only the policy's frozen parameters
  ShardedModelRequest request;
  request.spec.model = &shape;
  request.spec.heads = first_heads(heads.token_heads);
  request.spec.value_heads = heads.value_heads;
  request.options = group_options(parallel, device);
  request.sequence_length = experiment.train.sequence_length;
  return request;
}

BatchRequest batch_request(const Experiment& experiment, const ActivePipeline& pipeline, const at::Device& device) {
  BatchRequest request;
  request.heads = num_heads(experiment.model, pipeline.objective ? Heads::none : Heads::all);
  request.offsets = experiment.model.future_offsets;
  request.prompts = pipeline.needs.prompts;
  request.pairs = pipeline.needs.pairs;
  request.signals = pipeline.data_signals();
  request.device = device;
  request.parts = ranks_per_sequence(experiment.parallel);
  request.window = experiment.model.sliding_window;
  return request;
}

BatchRequest batch_request(const Experiment& experiment, const ActivePipeline& pipeline, const Prepared& data,
                           const at::Device& device) {
  BatchRequest request = batch_request(experiment, pipeline, device);
  if (pipeline.reads(Signal::data_bytes))
    request.token_bytes = token_bytes(*data.tokenizer, experiment.model.vocab_size).to(device);
  return request;
}

std::filesystem::path initial_weights(const Session& session, const Experiment& experiment, const Stages& stages,
                                      const std::string& table, const std::string& weights) {
  if (const auto stage = stages.find(table); stage != stages.end()) return stage->second.model;
  const std::filesystem::path& database = session.job().database;
  if (weights.empty()) return {};
  return find_complete_model(resolve_weights(weights, experiment, database), database);
}

}  // namespace wmtp
