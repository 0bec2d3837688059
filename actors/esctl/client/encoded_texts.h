#pragma once
// Job files with data.kind = "texts": the texts become token files before the job is submitted.
#include <cstdint>
#include <filesystem>
#include <vector>

#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "store/dataset/tokens/token_set.h"

namespace es::actors::esctl {

// Encodes the texts of a job into FOLDER/NAME.tokens/DIGEST beside its job file FOLDER/NAME.toml,
// and makes it a job on these token files. The digest is that of the texts, the tokenizer and the
// settings; a directory that exists already is used as it is. A job with other data stays as it is.
// `progress` is called while texts are encoded; false ends it, which is an error (failure).
// REQUIRES: the paths of the job are absolute. Errors: those of Tokenizer::read and
// write_token_set; usage, naming the field, its value and what is allowed.
Status encode_texts(JobSpec& spec, const std::filesystem::path& job_file,
                    const store::TokenSetProgress& progress);

// Encoded texts beside a job file.
struct EncodedTexts {
  std::filesystem::path directory;
  std::uint64_t bytes = 0;
  bool current = false;  // they belong to the job file and its texts as they are now
};

// Lists the encoded texts beside a job file by their names; other files there are left out. `spec`
// is the job, or nullptr: none of them is current. REQUIRES and errors: as encode_texts().
Result<std::vector<EncodedTexts>> encoded_texts(const std::filesystem::path& job_file,
                                                const JobSpec* spec);

// Removes them, and FOLDER/NAME.tokens if it is empty then. Error (failure): a file stays.
Status remove_encoded_texts(const std::filesystem::path& job_file,
                            const std::vector<EncodedTexts>& texts);

}  // namespace es::actors::esctl
