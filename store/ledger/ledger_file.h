#pragma once
// A ledger as a portable text file, to compare runs of different clusters or of different days.
//
//   easyscale-ledger 3 #CHECK
//   job small_cnn-1-k3x9w2fa #CHECK
//   spec 0123456789abcdef0123456789abcdef #CHECK     what decides the bits of the result, a digest
//   placements cpu-avx2:4@20,cpu-scalar:1@10 #CHECK  that it went through; absent: not known
//   from /data/small_cnn-step-20 #CHECK              that it began from; absent: the seed
//   checkpoint /data/small_cnn-step-40 #CHECK        its newest; absent: none
//   toml name = "small_cnn" #CHECK                   the job specification, line by line
//   losses 4 #CHECK                                  how many each of the following lines has
//   1 00112233445566778899aabbccddeeff 3f800000 40000000 3f000000 3e800000 #CHECK
//   ...
//   end 60 #CHECK                                    number of lines
//
// CHECK: the first 16 hexadecimal digits of the digest (proto/base/digest.h) of the check of the
// line before, the line up to " #" and a line feed. So every byte of the file is covered, a line
// that is changed, missing, twice or in another place is found there, and so is a file that is cut.
// It finds damage, not forgery.
//
// One line for each version, ascending: version, digest of the parameters ("-" when there is none),
// then the losses by virtual rank, as the bits of fp32 in hexadecimal.
#include <string>
#include <string_view>
#include <vector>

#include "store/ledger/ledger.h"

namespace es::store {

struct LedgerFile {
  JobId job;
  Digest spec;
  std::string placements;  // as parse_stages reads them; empty: not known
  std::string from;
  std::string checkpoint;
  std::string spec_toml;          // ends with a line feed, or is empty
  std::vector<LedgerLine> lines;  // ascending; all with the same number of losses
};

std::string encode_ledger_file(const LedgerFile& file);
// Error (usage): names `where`, the line, and what is allowed there.
Result<LedgerFile> decode_ledger_file(std::string_view text, const std::string& where);

}  // namespace es::store
