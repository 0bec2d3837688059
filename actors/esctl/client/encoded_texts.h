#pragma once
// Job files with data.kind = "texts": the texts become token files before the job is submitted.
#include <filesystem>

#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

// Encodes the texts of a job into FOLDER/NAME.tokens/DIGEST beside its job file FOLDER/NAME.toml,
// and makes it a job on these token files. The digest is that of the texts, the tokenizer and the
// settings; a directory that exists already is used as it is. A job with other data stays as it is.
// REQUIRES: the paths of the job are absolute. Errors: those of Tokenizer::read and
// write_token_set; usage, naming the field, its value and what is allowed.
Status encode_texts(JobSpec& spec, const std::filesystem::path& job_file);

}  // namespace es::actors::esctl
