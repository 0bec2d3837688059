#pragma once
// The writer and the reader of a record follow from one list of its fields:
//
//   template <>
//   struct RecordFields<ClaimRecord> {
//     static constexpr std::uint8_t kOldestVersion = 1;
//     template <class Claim, class Visit>
//     static void visit_fields(Claim& claim, Visit& visit) {
//       visit("name", claim.name);
//       visit("count", claim.count);
//       visit.added();
//       visit("queue", claim.queue);
//     }
//   };
//
// A record has no names of fields, so none is removed or moved. A new one stands at the end, behind
// an added() that no earlier program had. The format version of a record is kOldestVersion plus the
// number of its added(), and a record of an earlier version is read without the fields that were
// added later: they keep their defaults. A record of a later version has fields that this program
// does not know, so it is refused, with the version that is allowed.
//
// A field is a bool, number, text or digest, or a vector, set, map or optional. An item may be a
// structure, which has RecordFields too, without names of its fields, and without added(). A set
// and a map ascend. expect() refuses values when they are read. Pure.
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "store/kv/record_codec.h"

namespace es::store {

template <class Record>
struct RecordFields;

class ValueWriter {
 public:
  explicit ValueWriter(std::uint8_t version) : out_(version) {}
  template <class T>
  void operator()(const T& value) {
    write(value);
  }
  void expect(bool) const {}
  std::string take() { return out_.take(); }

 private:
  void write(bool value) { out_.u8(value ? 1 : 0); }
  void write(std::uint8_t value) { out_.u8(value); }
  void write(std::uint32_t value) { out_.u32(value); }
  void write(std::uint64_t value) { out_.u64(value); }
  void write(double value) { out_.f64(value); }
  void write(const std::string& value) { out_.text(value); }
  void write(const Digest& value) { out_.digest(value); }
  template <class First, class Second>
  void write(const std::pair<First, Second>& value) {
    write(value.first);
    write(value.second);
  }
  template <class T>
  void write(const std::optional<T>& value) {
    write(value.has_value());
    if (value) write(*value);
  }
  template <class T>
  void write(const std::vector<T>& list) {
    write_items(list);
  }
  template <class T>
  void write(const std::set<T>& set) {
    write_items(set);
  }
  template <class Key, class T>
  void write(const std::map<Key, T>& map) {
    write_items(map);
  }
  template <class T>
  void write(const T& structure) {
    RecordFields<T>::visit_fields(structure, *this);
  }
  template <class List>
  void write_items(const List& list) {
    out_.u32(static_cast<std::uint32_t>(list.size()));
    for (const auto& item : list) write(item);
  }

  RecordWriter out_;
};

class ValueReader {
 public:
  explicit ValueReader(RecordReader in) : in_(std::move(in)) {}
  template <class T>
  void operator()(T& value) {
    read(value);
  }
  void expect(bool holds) { in_.expect(holds, field_); }
  // The field that later errors name.
  void begin(const char* field) { field_ = field; }
  Status finish() { return in_.finish(); }

 private:
  void read(bool& value) {
    const std::uint8_t number = in_.u8();
    expect(number <= 1);
    value = number == 1;
  }
  void read(std::uint8_t& value) { value = in_.u8(); }
  void read(std::uint32_t& value) { value = in_.u32(); }
  void read(std::uint64_t& value) { value = in_.u64(); }
  void read(double& value) { value = in_.f64(); }
  void read(std::string& value) { value = in_.text(); }
  void read(Digest& value) { value = in_.digest(); }
  template <class First, class Second>
  void read(std::pair<First, Second>& value) {
    read(value.first);
    read(value.second);
  }
  template <class T>
  void read(std::optional<T>& value) {
    bool present = false;
    read(present);
    if (present) read(value.emplace());
  }
  template <class T>
  void read(std::vector<T>& list) {
    read_items<T>([&](T item) { list.push_back(std::move(item)); });
  }
  template <class T>
  void read(std::set<T>& set) {
    read_items<T>([&](T item) {
      expect(set.empty() || *set.rbegin() < item);
      set.insert(std::move(item));
    });
  }
  template <class Key, class T>
  void read(std::map<Key, T>& map) {
    read_items<std::pair<Key, T>>([&](std::pair<Key, T> item) {
      expect(map.empty() || map.rbegin()->first < item.first);
      map.insert(std::move(item));
    });
  }
  template <class T>
  void read(T& structure) {
    RecordFields<T>::visit_fields(structure, *this);
  }
  template <class T, class Take>
  void read_items(Take take) {
    const std::uint32_t count = in_.count(bytes_min<T>());
    for (std::uint32_t i = 0; i < count && in_.ok(); ++i) {
      T item{};
      read(item);
      take(std::move(item));
    }
  }
  // No value of a type takes fewer bytes than the default one, whose texts and lists are empty.
  template <class T>
  static std::size_t bytes_min() {
    ValueWriter out(0);
    out(T{});
    return out.take().size() - 1;
  }

  RecordReader in_;
  const char* field_ = "";
};

// The three visitors of the fields of a record. coded() is a field that is stored as
// `store(value)`, and read as `load(stored)`, which is nullopt for what no value is stored as.

class VersionCounter {
 public:
  explicit VersionCounter(std::uint8_t oldest) : version_(oldest) {}
  template <class T>
  void operator()(const char*, const T&) {}
  template <class T, class Store, class Load>
  void coded(const char*, const T&, Store, Load) {}
  void expect(bool) const {}
  void added() { ++version_; }
  std::uint8_t version() const { return version_; }

 private:
  std::uint8_t version_;
};

class FieldWriter {
 public:
  explicit FieldWriter(std::uint8_t version) : out_(version) {}
  template <class T>
  void operator()(const char*, const T& value) {
    out_(value);
  }
  template <class T, class Store, class Load>
  void coded(const char*, const T& value, Store store, Load) {
    out_(store(value));
  }
  void expect(bool) const {}
  void added() const {}
  std::string take() { return out_.take(); }

 private:
  ValueWriter out_;
};

class FieldReader {
 public:
  // `oldest`: the version before the first added(); `version`: that of the record.
  FieldReader(RecordReader in, std::uint8_t oldest, std::uint8_t version)
      : in_(std::move(in)), reached_(oldest), version_(version) {}
  template <class T>
  void operator()(const char* name, T& value) {
    if (!has_fields()) return;
    in_.begin(name);
    in_(value);
  }
  template <class T, class Store, class Load>
  void coded(const char* name, T& value, Store store, Load load) {
    if (!has_fields()) return;
    decltype(store(value)) stored{};
    operator()(name, stored);
    auto loaded = load(stored);
    expect(loaded.has_value());
    if (loaded) value = *std::move(loaded);
  }
  // Refuses the field that was read last.
  void expect(bool holds) {
    if (has_fields()) in_.expect(holds);
  }
  void added() { ++reached_; }
  Status finish() { return in_.finish(); }

 private:
  bool has_fields() const { return reached_ <= version_; }

  ValueReader in_;
  std::uint8_t reached_, version_;
};

// The oldest version of a record that is read, and the one that is written.
template <class Record>
std::pair<std::uint8_t, std::uint8_t> record_versions() {
  constexpr std::uint8_t kOldest = RecordFields<Record>::kOldestVersion;
  VersionCounter counter(kOldest);
  const Record record{};
  RecordFields<Record>::visit_fields(record, counter);
  return {kOldest, counter.version()};
}

template <class Record>
std::string encode_record(const Record& record) {
  FieldWriter out(record_versions<Record>().second);
  RecordFields<Record>::visit_fields(record, out);
  return out.take();
}

// Reads the fields into `record`; `what` names it in errors. Error (failure): encode_record() of
// this program or of an earlier one did not write the bytes.
template <class Record>
Result<Record> decode_record(std::string_view bytes, std::string what, Record record = {}) {
  const auto [oldest, newest] = record_versions<Record>();
  const std::uint8_t found = bytes.empty() ? newest : static_cast<std::uint8_t>(bytes.front());
  const std::uint8_t version = oldest <= found && found <= newest ? found : newest;
  FieldReader in(RecordReader(bytes, version, std::move(what)), oldest, version);
  RecordFields<Record>::visit_fields(record, in);
  ES_RETURN_IF_ERROR(in.finish());
  return record;
}

}  // namespace es::store
