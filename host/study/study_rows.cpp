#include "study/study_rows.hpp"

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "log/log_reader.hpp"
#include "log/open_log.hpp"
#include "study/members.hpp"

namespace wmtp {
namespace {

void insert(Database& log, const std::string& study, const Json& definition, const Json& estimate) {
  Statement(log, "INSERT INTO study_plans (study, hash, planned_at, definition, estimate) VALUES (?1, ?2, ?3, ?4, ?5)")
      .run(study, study_hash(definition), utc_now(), dumped(definition), dumped(estimate));
}

/// The definition with which the study of this name was begun. Error(usage) if it is that of another study: one without
/// any of these members.
Json first_definition(const std::filesystem::path& database, const std::string& study, const std::string& text,
                      const Json& definition) {
  Json first = parse_strict_json(text, "study_plans");
  const Json then = first.value("members", Json::object()), now = definition.value("members", Json::object());
  std::vector<std::string> names;
  for (const auto& [name, values] : then.items()) {
    if (now.contains(name)) return first;
    names.push_back(printable(name));
  }
  if (names.empty()) return first;
  throw Error(ExitStatus::usage, database.string() + ": the study " + printable(study) +
                                     ", named after its file, was begun with none of these members, but with " +
                                     join_names(names) + "; rename the file, or use another log");
}

}  // namespace

void store_plan(const std::filesystem::path& database, const std::string& study, const Json& definition,
                const Json& estimate) {
  Database log = open_log_for_writing(database);
  insert(log, study, definition, estimate);
}

std::string begun_at(const std::filesystem::path& database, const std::string& study, const Json& definition) {
  const Table found = LogReader(database).query(
      "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', begun_ns / 1e9, 'unixepoch'), definition FROM study_plans "
      "WHERE study = ?1 AND begun_ns IS NOT NULL ORDER BY begun_ns",
      {study}, 1);
  if (found.rows.empty()) return "";
  first_definition(database, study, found.rows[0][1], definition);
  return found.rows[0][0];
}

Json begin_study(const std::filesystem::path& database, const std::string& study, const Json& definition) {
  Database log = open_log_for_writing(database);
  const std::string hash = study_hash(definition);
  Transaction transaction(log);
  const auto newest = [&] {
    Statement find(log, "SELECT coalesce(max(id), 0) FROM study_plans WHERE study = ?1 AND hash = ?2");
    find.bind_all({study, hash});
    find.step();
    return find.integer(0);
  };
  if (newest() == 0) insert(log, study, definition, Json::object());
  Statement(log, "UPDATE study_plans SET begun_ns = coalesce(begun_ns, ?1) WHERE id = ?2").run(now_ns(), newest());
  Json plan;
  {
    Statement first(
        log,
        "SELECT planned_at, strftime('%Y-%m-%dT%H:%M:%SZ', begun_ns / 1e9, 'unixepoch'), definition, estimate "
        "FROM study_plans WHERE study = ?1 AND begun_ns IS NOT NULL ORDER BY begun_ns LIMIT 1");
    first.bind_all({study});
    first.step();
    plan = {{"planned_at", first.text(0)},
            {"begun_at", first.text(1)},
            {"estimate", parse_strict_json(first.text(3), "study_plans")},
            {"changes", definition_changes(first_definition(database, study, first.text(2), definition), definition)}};
  }
  transaction.commit();
  return plan;
}

void store_report(const std::filesystem::path& database, OrderedJson report, const std::string& curves_svg,
                  const std::string& differences_svg) {
  report.erase("results");
  Database log = open_log_for_writing(database);
  Statement(log,
            "INSERT OR REPLACE INTO study_reports (study, hash, made_ns, report, curves, differences) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
      .run(report.at("study").get<std::string>(), report.at("hash").get<std::string>(), now_ns(), dumped(report),
           curves_svg, differences_svg);
}

}  // namespace wmtp
