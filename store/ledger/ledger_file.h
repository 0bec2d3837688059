#pragma once
// A ledger as a portable text file, to compare runs of different clusters or of different days.
//
//   easyscale-ledger 3 #CHECK
//   job small_cnn-1-k3x9w2fa #CHECK
//   spec 0123456789abcdef0123456789abcdef #CHECK     digest of the fields that decide the bits
//   placements cpu-avx2:4@20,cpu-scalar:1@10 #CHECK  placements of the job; absent if not known
//   from /data/small_cnn-step-20 #CHECK              its first checkpoint; absent for the seed
//   checkpoint /data/small_cnn-step-40 #CHECK        its newest checkpoint; absent if none
//   toml name = "small_cnn" #CHECK                   the job specification, line by line
//   losses 4 #CHECK                                  number of losses in each following line
//   1 00112233445566778899aabbccddeeff 3f800000 40000000 3f000000 3e800000 #CHECK
//   ...
//   end 60 #CHECK                                    number of lines
//
// CHECK is the first 16 hexadecimal digits of a digest (proto/base/digest.h). The digest is
// computed over the check of the previous line, the line up to " #", and a line feed. So every byte
// of the file is covered, and a line that is changed, missing, repeated or in another place is
// detected, as is a file that is cut. The checks detect damage, not forgery.
//
// There is one line for each version, ascending: the version, the digest of the parameters ("-" if
// there is none), and the losses by virtual rank, as the bits of fp32 numbers in hexadecimal.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/ledger/ledger.h"

namespace es::store {

struct LedgerFile {
  JobId job;
  Digest spec;
  std::string placements;  // in the form that parse_stages reads; empty if not known
  std::string from;
  std::string checkpoint;
  std::string spec_toml;          // ends with a line feed, or is empty
  std::vector<LedgerLine> lines;  // ascending; all with the same number of losses
};

// The oldest version that is read, and the one that is written.
std::pair<std::uint32_t, std::uint32_t> ledger_file_versions();

std::string encode_ledger_file(const LedgerFile& file);
// Error (usage): names `where`, the line, and what is allowed there.
Result<LedgerFile> decode_ledger_file(std::string_view text, const std::string& where);

}  // namespace es::store
