#include "study/members.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/json_text.hpp"
#include "base/random.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "experiment/canonical.hpp"
#include "experiment/schema.hpp"
#include "experiment/toml/toml_source.hpp"
#include "job/identity.hpp"
#include "job/stages.hpp"

namespace wmtp {
namespace {

/// What the member changes with this seed; for a run of its tuning also what that changes.
std::vector<StudyChange> changes_of(const Study& study, size_t member, int64_t seed, bool tunes = false) {
  const StudyMember& of = study.members[member];
  std::vector<StudyChange> changes = of.changes;
  if (tunes) changes.insert(changes.end(), study.tuning.changes.begin(), study.tuning.changes.end());
  for (StudyChange& change : changes) change.text = filled_in(change.text, seed, of.condition);
  return changes;
}

/// `purpose`: "", "pilot-" or "tuning-".
std::string run_name(const Study& study, size_t member, const std::string& purpose) {
  return study.name + "-" + purpose + name_part(study.members[member].name);
}

StudyRun run_of(const Study& study, size_t member, int64_t seed, const std::vector<StudyChange>& changes,
                const TunedChoice& choice, const std::string& name) {
  const StudyMember& of = study.members[member];
  StudyRun run{member, seed, of.experiment, {}};
  for (const StudyChange& change : changes) run.how.overrides.push_back(change.text);
  run.how.title = of.name;
  for (const std::string& setting : choice) run.how.title += " " + setting;
  run.how.title += " seed=" + std::to_string(seed);
  std::ranges::copy(choice, std::back_inserter(run.how.overrides));
  run.how.overrides.push_back("seed=" + std::to_string(seed));
  run.how.overrides.push_back("name=\"" + name + "\"");
  return run;
}

std::vector<StudyRun> runs_of_seeds(const Study& study, const std::vector<int64_t>& seeds,
                                    const std::vector<TunedChoice>& choices, const std::string& purpose) {
  std::vector<StudyRun> runs;
  for (const int64_t seed : seeds)
    for (size_t i = 0; i < study.members.size(); ++i)
      runs.push_back(run_of(study, i, seed, changes_of(study, i, seed), choices[i], run_name(study, i, purpose)));
  return runs;
}

/// A value of the key in the draw of this number.
std::string drawn(const TunedKey& key, const std::string& member, int64_t number) {
  const double share = unit_float(philox(name_key(member + "." + key.key, 0), 0, uint64_t(number))[0]);
  if (key.from == 0) return key.values[size_t(share * double(key.values.size()))];
  return printed("%.3g", std::exp(std::lerp(std::log(key.from), std::log(key.to), share)));
}

/// Errors of one experiment, with the places of the study's changes in place of "--set KEY=VALUE".
std::string with_places(std::string message, const std::vector<StudyChange>& changes) {
  for (const StudyChange& change : changes) {
    const std::string label = "--set " + change.text + ": ";
    for (size_t at = 0; (at = message.find(label, at)) != std::string::npos;) {
      const bool begins_line = at == 0 || message[at - 1] == '\n';
      if (begins_line) message.replace(at, label.size(), change.place + ": ");
      at += begins_line ? change.place.size() + 2 : label.size();
    }
  }
  return message;
}

class Loader {
 public:
  Loader(const JobRequest& request, const Catalog& catalog, SourceTexts& texts)
      : request_(request), catalog_(catalog), texts_(texts) {}

  std::optional<Job> load(const StudyRun& run, const std::vector<StudyChange>& changes, const StudyMember& member) {
    try {
      Job job = load_run(run, request_, catalog_, texts_);
      if (!read_sweep(run.file, {}, texts_).empty())
        throw Error(ExitStatus::usage, run.file.string() + ": found a [sweep]; a member is one experiment");
      return job;
    } catch (const Error& error) {
      const std::string what = with_places(error.what(), changes);
      const bool has_place = what != error.what();
      if (mistakes_.insert(what).second)
        text_ += (text_.empty() ? "" : "\n") +
                 (has_place ? what : member.place + ": member " + printable(member.name) + ":\n" + what);
      status_ = error.status() == ExitStatus::usage ? ExitStatus::usage : status_.value_or(error.status());
      return std::nullopt;
    }
  }

  void raise() const {
    if (status_) throw Error(*status_, text_);
  }

 private:
  const JobRequest& request_;
  const Catalog& catalog_;
  SourceTexts& texts_;
  std::set<std::string> mistakes_;
  std::string text_;
  std::optional<ExitStatus> status_;
};

/// Values that belong to the identity, without paths, by key.
Json portable_values(const Experiment& experiment) {
  Json found = Json::object();
  for (const auto& [key, value] : flat_values(experiment)) {
    const size_t dot = key.rfind('.');
    const SchemaTable* const table = find_table(dot == std::string::npos ? "" : key.substr(0, dot));
    const Key* const known = table ? find_key(*table, key.substr(dot == std::string::npos ? 0 : dot + 1)) : nullptr;
    const bool counts =
        !table || (table->in_identity && (!known || (known->in_identity && known->path_kind == PathKind::none)));
    if (counts && key != "name" && key != "seed") found[key] = toml_text(value);
  }
  return found;
}

Json without(const Json& values, const Json& equal) {
  Json found = Json::object();
  for (const auto& [key, value] : values.items())
    if (!equal.contains(key) || equal[key] != value) found[key] = value;
  for (const auto& [key, value] : equal.items())
    if (!values.contains(key)) found[key] = nullptr;
  return found;
}

Json tuning_definition(const Study& study) {
  Json members = Json::object(), set = Json::array();
  for (const StudyMember& member : study.members)
    for (const TunedKey& key : member.tuned)
      members[member.name][key.key] = key.from > 0 ? Json{{"from", key.from}, {"to", key.to}} : Json(key.values);
  for (const StudyChange& change : study.tuning.changes) {
    const bool has_path = change.text.find('/') != std::string::npos;  // of this machine
    set.push_back(has_path ? overridden_key(change.text) : change.text);
  }
  return {{"seeds", study.tuning.seeds}, {"draws", study.tuning.draws}, {"set", set}, {"keys", members}};
}

void flatten(const Json& json, const std::string& path, std::map<std::string, std::string>& found) {
  if (!json.is_object()) {
    found[path] = dumped(json);
    return;
  }
  for (const auto& [key, value] : json.items()) flatten(value, path.empty() ? key : path + "." + key, found);
}

/// Of the first seed's problems: by condition, if each has problems of its own.
Json suite_hashes(const Study& study, const StudyEvaluation& of) {
  Json hashes = Json::object();
  for (const std::string& condition : study.conditions) {
    const std::string suite = filled_in(of.suite, study.seeds.front(), condition);
    if (suite == filled_in(of.suite, study.seeds.front(), "")) return file_sha256_hex(suite);
    hashes[condition] = file_sha256_hex(suite);
  }
  return hashes;
}

}  // namespace

std::vector<StudyRun> study_runs(const Study& study, const std::vector<TunedChoice>& choices) {
  return runs_of_seeds(study, study.seeds, choices, "");
}

std::vector<StudyRun> pilot_runs(const Study& study, const std::vector<int64_t>& seeds) {
  return runs_of_seeds(study, seeds, std::vector<TunedChoice>(study.members.size()), "pilot-");
}

std::vector<TunedChoice> tuned_choices(const Study& study, size_t member) {
  const StudyMember& of = study.members[member];
  std::vector<TunedChoice> choices{{}};
  if (of.tuned.empty()) return choices;
  if (study.tuning.draws > 0) {
    choices.clear();
    // A grid may have fewer different choices than draws are wanted.
    const int64_t most = 20 * study.tuning.draws;
    for (int64_t number = 0; number < most && int64_t(choices.size()) < study.tuning.draws; ++number) {
      TunedChoice choice;
      for (const TunedKey& key : of.tuned) choice.push_back(key.key + "=" + drawn(key, of.name, number));
      if (std::ranges::find(choices, choice) == choices.end()) choices.push_back(choice);
    }
    return choices;
  }
  for (const TunedKey& key : of.tuned) {
    std::vector<TunedChoice> longer;
    for (const TunedChoice& before : choices)
      for (const std::string& value : key.values) {
        longer.push_back(before);
        longer.back().push_back(key.key + "=" + value);
      }
    choices = std::move(longer);
  }
  return choices;
}

std::vector<StudyRun> tuned_runs(const Study& study, const std::vector<int64_t>& seeds) {
  std::vector<StudyRun> runs;
  for (size_t i = 0; i < study.members.size(); ++i)
    if (!study.members[i].tuned.empty())
      for (const TunedChoice& choice : tuned_choices(study, i))
        for (const int64_t seed : seeds)
          runs.push_back(run_of(study, i, seed, changes_of(study, i, seed), choice, run_name(study, i, "")));
  return runs;
}

std::vector<StudyRun> tuning_runs(const Study& study, size_t member, const std::vector<TunedChoice>& choices) {
  std::vector<StudyRun> runs;
  for (const TunedChoice& choice : choices)
    for (const int64_t seed : study.tuning.seeds) {
      const auto changes = changes_of(study, member, seed, /*tunes=*/true);
      runs.push_back(run_of(study, member, seed, changes, choice, run_name(study, member, "tuning-")));
      runs.back().how.title = "tuning " + runs.back().how.title;
    }
  return runs;
}

Job load_run(const StudyRun& run, const JobRequest& request, const Catalog& catalog, SourceTexts& texts) {
  JobRequest own = request;
  own.file = run.file.string();
  own.overrides = run.how.overrides;
  return make_job(own, catalog, texts);
}

LoadedMembers load_members(const Study& study, const JobRequest& request, const Catalog& catalog, SourceTexts& texts) {
  LoadedMembers loaded;
  Loader loader(request, catalog, texts);
  for (size_t i = 0; i < study.members.size(); ++i) {
    const StudyMember& member = study.members[i];
    const int64_t seed = study.seeds.front();
    std::vector<StudyChange> changes = changes_of(study, i, seed);
    if (auto job = loader.load(run_of(study, i, seed, changes, {}, run_name(study, i, "")), changes, member))
      loaded.jobs.push_back(std::move(*job));
    if (member.tuned.empty()) continue;
    for (const int64_t of_tuning : study.tuning.seeds)
      std::ranges::copy(changes_of(study, i, of_tuning, /*tunes=*/true), std::back_inserter(changes));
    const std::vector<TunedChoice> choices = tuned_choices(study, i);
    for (const TunedChoice& choice : choices)
      for (size_t k = 0; k < choice.size(); ++k) changes.push_back({choice[k], member.tuned[k].place});
    for (const StudyRun& run : tuning_runs(study, i, choices)) loader.load(run, changes, member);
  }
  loader.raise();
  for (size_t i = 0; i < loaded.jobs.size(); ++i)
    if (study.metric.starts_with("valid/") && !loaded.jobs[i].experiment.validation.given)
      throw Error(ExitStatus::usage, study.members[i].place + ": member " + printable(study.members[i].name) +
                                         " has no [validation], so that it never logs " + study.metric +
                                         "; add the table, or set.validation.files to the study");
  loaded.database = loaded.jobs.front().database;
  for (size_t i = 0; i < loaded.jobs.size(); ++i)
    if (loaded.jobs[i].database != loaded.database)
      throw Error(ExitStatus::usage, study.members[i].place + ": member " + printable(study.members[i].name) +
                                         " logs to " + loaded.jobs[i].database.string() + ", but " +
                                         printable(study.members[0].name) + " logs to " + loaded.database.string() +
                                         "; set one log for all with --db");
  return loaded;
}

Json study_definition(const Study& study, const LoadedMembers& members) {
  Json budgets = Json::array(), of_members = Json::object();
  for (const StudyBudget& budget : study.budgets) budgets.push_back(title_of(budget));
  for (size_t i = 0; i < study.members.size(); ++i) {
    const Json values = portable_values(members.jobs[i].experiment);
    of_members[study.members[i].name] =
        study.is_control(i) ? values
                            : without(values, portable_values(members.jobs[study.members[i].control].experiment));
  }
  Json definition{{"metric", study.metric},           {"better", study.lower_is_better ? "lower" : "higher"},
                  {"also", study.explored},           {"seeds", study.seeds},
                  {"control", study.control_title()}, {"budgets", budgets}};
  if (study.has_conditions()) definition["conditions"] = study.conditions;
  if (!study.stops.empty()) definition["stop_at"] = study.stops;
  if (!study.tuning.seeds.empty()) definition["tuning"] = tuning_definition(study);
  for (const StudyEvaluation& of : study.evaluations)
    definition["evaluations"][of.name] = {{"suite", suite_hashes(study, of)},
                                          {"judge", of.judge.empty() ? Json() : Json(file_sha256_hex(of.judge))},
                                          {"temperature", of.temperature},
                                          {"max_tokens", of.max_tokens}};
  definition["members"] = of_members;
  return definition;
}

Json study_inputs(const Study& study, const LoadedMembers& members, const Catalog& catalog) {
  ExperimentHashes hashes(catalog, members.database);
  std::vector<Json> all;
  for (const Job& job : members.jobs) {
    const Stages stages = hashes.stages(job.experiment);
    Json& inputs = all.emplace_back(Json::object());
    for (const auto& [name, hash] : input_hashes(job.experiment, stages, catalog, members.database))
      inputs[name] = hash();
  }
  Json found = Json::object();
  for (size_t i = 0; i < all.size(); ++i)
    found[study.members[i].name] = study.is_control(i) ? all[i] : without(all[i], all[study.members[i].control]);
  return found;
}

std::vector<std::string> input_changes(const Json& then, const Json& now) {
  return then.is_object() && now.is_object() ? definition_changes(then, now) : std::vector<std::string>();
}

std::string study_hash(const Json& definition) { return sha256_hex(dumped(definition)); }

std::vector<std::string> definition_changes(const Json& then, const Json& now) {
  std::map<std::string, std::string> before, after;
  flatten(then, "", before);
  flatten(now, "", after);
  std::vector<std::string> changes;
  std::set<std::string> keys;
  for (const auto* values : {&before, &after})
    for (const auto& [key, value] : *values) keys.insert(key);
  const auto shown = [](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? "nothing" : truncate_text(found->second, 60);
  };
  for (const std::string& key : keys)
    if (const std::string a = shown(before, key), b = shown(after, key);
        !before.contains(key) || !after.contains(key) || before.at(key) != after.at(key))
      changes.push_back(printable(key).substr(1, printable(key).size() - 2) + ": " + a + " then, " + b + " now");
  return changes;
}

Json with_additions(Json then, const Json& now) try {
  const auto extend = [](Json& old, const Json& list) {
    const auto is_kept = [&](const Json& one) { return std::ranges::find(list, one) != list.end(); };
    if (old.is_array() && list.is_array() && std::ranges::all_of(old, is_kept)) old = list;
  };
  for (const char* list : {"seeds", "conditions"})
    if (then.contains(list) && now.contains(list)) extend(then[list], now[list]);
  for (const auto& [name, values] : now.at("members").items()) {
    const bool is_new = !then["members"].contains(name);
    if (is_new) then["members"][name] = values;
    if (!now.contains("tuning") || !then.contains("tuning") || !now["tuning"]["keys"].contains(name)) continue;
    Json& keys = then["tuning"]["keys"];
    if (is_new)
      keys[name] = now["tuning"]["keys"][name];
    else if (keys.contains(name))
      for (auto& [key, tried] : keys[name].items())
        if (now["tuning"]["keys"][name].contains(key)) extend(tried, now["tuning"]["keys"][name][key]);
  }
  return then;
} catch (const Json::exception&) {  // no definition, as a file of results may contain anything
  return then;
}

}  // namespace wmtp
