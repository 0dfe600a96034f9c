// What libwmtp_engine.so exports for engine_door.cpp: plain functions that throw nothing. Both sides include this file
// and are built together; no other version of the engine fits.
#pragma once

#include <string>
#include <vector>

#include "core/job/generation.hpp"
#include "core/job/job.hpp"
#include "core/job/merge.hpp"

extern "C" {

/// run_rank() and run_prepare() of core/job/job.hpp: the process's exit code, after having said on stderr what went wrong.
int wmtp_engine_run(const wmtp::Job* job, const wmtp::RankEnvironment* environment);
int wmtp_engine_prepare(const wmtp::Job* job);

/// 0 and the plugin's description as JSON, or an exit code and the reason as plain text.
int wmtp_engine_describe(const char* plugin_file, std::string* json_or_error);
/// The same for a plugin's answer to its options.
int wmtp_engine_check(const char* settings, std::string* json_or_error);
/// The same for what the engine is made of; there is no question.
int wmtp_engine_about(const char* nothing, std::string* json_or_error);

/// The same for the layouts of models.
int wmtp_engine_layouts(const char* questions, std::string* json_or_error);

/// The same for a trial of a plugin.
int wmtp_engine_try(const char* question, std::string* json_or_error);

/// 0 and the text, or an exit code and the reason as plain text.
int wmtp_engine_generate(const wmtp::GenerateRequest* request, wmtp::Generated* result, std::string* error);
/// The same for many prompts.
int wmtp_engine_answer(const wmtp::AnswerRequest* request, std::string* error);
/// The same for texts.
int wmtp_engine_perplexity(const wmtp::PerplexityRequest* request, std::vector<wmtp::HeadLoss>* heads,
                           std::string* error);
/// The same for an adapter and its base.
int wmtp_engine_merge(const wmtp::MergeRequest* request, std::string* error);

}  // extern "C"
