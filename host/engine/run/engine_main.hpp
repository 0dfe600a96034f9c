// The commands of wmtp-engine. wmtp-host starts it; see core/job/engine_process.hpp and core/plugins/probe.hpp.
//
//   run REQUEST            one rank of a job (core/job/job_request.hpp), described by its environment
//   prepare REQUEST        the tokenizer and token files of an experiment
//   describe FILE, check SETTINGS, layouts QUESTIONS, try QUESTION
//                          questions about a plugin; the answer is JSON on stdout
//   about, generate, answer, perplexity, merge  REQUEST ANSWER
//                          the request is read from one file, the answer is written to another, both CBOR
#pragma once

namespace wmtp {

/// Returns the exit code; never throws.
int engine_main(int argc, char** argv);

}  // namespace wmtp
