#pragma once
// The file with the tokens of an HTTP service.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "actors/service/core/tokens.h"

namespace es::actors::http {

// The tokens in the file. Errors: not found, refused (other users may change it), usage (a line
// that is no token), failure.
Result<std::vector<Token>> read_tokens(const std::filesystem::path& file);

// Calls `change` with the tokens in the file (none if it does not exist yet) and replaces the file
// by the result, as a whole, with mode 0600. Two processes that change the file wait for each
// other. Errors: those of `change` and read_tokens, failure (the disk).
Status change_tokens(const std::filesystem::path& file,
                     const std::function<Status(std::vector<Token>&)>& change);

// A new token: 32 random bytes in hexadecimal.
std::string new_token();

}  // namespace es::actors::http
