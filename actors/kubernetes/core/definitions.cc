#include "actors/kubernetes/core/definitions.h"

#include "actors/kubernetes/core/field_schema.h"
#include "actors/kubernetes/core/yaml_text.h"
#include "proto/base/job_fields.h"

namespace es::actors::kubernetes {
namespace {

// What the head has decided on cannot change: a rule for each property of the job file.
Json unchangeable(const Json& properties) {
  Json rules = Json::array();
  for (const auto& [name, schema] : properties.items()) {
    const std::string now = "self." + name, before = "oldSelf." + name;
    rules.push_back({{"rule", "has(" + now + ") == has(" + before + ") && (!has(" + now + ") || " +
                                  now + " == " + before + ")"},
                     {"message", name + " may not change after the job was made"}});
  }
  return rules;
}

std::string default_of(std::string_view key) {
  for (const FieldValue& value : field_values(JobSpec{}))
    if (value.field.key == key) return value.toml;
  return {};
}

Json job_schema() {
  Json properties = job_properties();
  properties["minDevices"] = properties["resources"]["properties"]["minDevices"];
  properties["cluster"] = {{"description", "The EasyScaleCluster that trains the job."},
                           {"type", "string"},
                           {"maxLength", 253},
                           {"default", kDefaultCluster}};
  Json rules = unchangeable(properties);
  rules.push_back({{"rule", "!has(self.devices) || self.devices <= (has(self.maxP) ? self.maxP : " +
                                default_of("max_p") + ")"},
                   {"message", "devices may not exceed maxP"}});
  properties["devices"] = {
      {"description",
       "Exactly this many devices, of the first type in resources.deviceTypes, or else of the "
       "first group of the cluster. Without it the scheduler chooses; 0 suspends the job."},
      {"type", "integer"},
      {"minimum", 0},
      {"maximum", 1024}};
  properties["suspend"] = {
      {"description", "The job is saved at a step boundary and has no devices."},
      {"type", "boolean"},
      {"default", false}};
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"x-kubernetes-validations", std::move(rules)}};
}

Json typed(const char* type, const char* description) {
  return {{"description", description}, {"type", type}};
}

Json open_object(const char* description) {
  Json schema = typed("object", description);
  schema["x-kubernetes-preserve-unknown-fields"] = true;
  return schema;
}

Json conditions_schema() {
  Json items{{"type", "object"},
             {"required", {"type", "status", "reason", "message", "lastTransitionTime"}},
             {"properties",
              {{"type", {{"type", "string"}}},
               {"status", {{"type", "string"}, {"enum", {"True", "False", "Unknown"}}}},
               {"reason", {{"type", "string"}}},
               {"message", {{"type", "string"}}},
               {"lastTransitionTime", {{"type", "string"}, {"format", "date-time"}}},
               {"observedGeneration", {{"type", "integer"}, {"format", "int64"}}}}}};
  return {{"type", "array"},
          {"x-kubernetes-list-type", "map"},
          {"x-kubernetes-list-map-keys", {"type"}},
          {"items", std::move(items)}};
}

Json job_status_schema() {
  return {
      {"type", "object"},
      {"properties",
       {{"observedGeneration", typed("integer", "The generation that the other fields are about.")},
        {"phase", typed("string", "The state of the job at the head, such as Running.")},
        {"job", typed("string", "The id of the job at the head.")},
        {"demand",
         typed("string", "The devices that the head was last asked for; auto: it chooses.")},
        {"devices", typed("integer", "Devices on which the job trains.")},
        {"placement", typed("string", "The same by type.")},
        {"step", typed("integer", "Global steps that are committed.")},
        {"lastStep", typed("integer", "The step at which the job ends.")},
        {"loss", typed("string", "Loss of the last step.")},
        {"digest", typed("string", "Digest of the parameters after that step.")},
        {"selector", typed("string", "The pods of the agents, for the subresource scale.")},
        {"submitted", open_object("The specification that the head has accepted.")},
        {"conditions", conditions_schema()}}}};
}

Json texts(const char* description) {
  Json schema = typed("array", description);
  schema["items"] = {{"type", "string"}};
  return schema;
}

// What a group of agents and the head have both.
Json pod_properties() {
  return {{"options", texts("Further options of easyscaled.")},
          {"resources", open_object("Resources of the container.")},
          {"template", open_object("What is merged into the specification of the pod: volumes, "
                                   "nodeSelector, tolerations and so on.")},
          {"volumeMounts",
           {{"description", "Further volumes of the container."},
            {"type", "array"},
            {"items", open_object("A volumeMount of a container.")}}}};
}

Json cluster_schema() {
  Json head = pod_properties();
  head["storage"] =
      typed("string", "Size of the volume for the journal and checkpoints, e.g. 20Gi.");
  head["storageClass"] = typed("string", "StorageClass of that volume.");
  Json agent = pod_properties();
  agent["name"] = {{"description", "Name of the group."},
                   {"type", "string"},
                   {"pattern", "^[a-z]([-a-z0-9]*[a-z0-9])?$"},
                   {"maxLength", 32}};
  agent["devices"] = typed("string", "What an agent offers, TYPE:COUNT, e.g. h100:8.");
  agent["devices"]["pattern"] = "^[-a-z0-9]+:[1-9][0-9]*$";
  agent["min"] = typed("integer", "The least number of agents.");
  agent["max"] = typed("integer", "The largest number of agents.");
  agent["min"].update({{"minimum", 0}, {"maximum", 10000}, {"default", 0}});
  agent["max"].update({{"minimum", 1}, {"maximum", 10000}});
  agent["graceSeconds"] =
      typed("integer", "Seconds in which an agent that ends hands its workers over.");
  agent["graceSeconds"].update({{"minimum", 1}, {"maximum", 86400}, {"default", 25}});
  agent["spot"] = typed("boolean", "Its nodes may be taken away at any time.");
  Json group{{"type", "object"}, {"required", {"name", "devices", "max"}}, {"properties", agent}};
  Json idle =
      typed("integer", "Seconds without a job after which an agent above min is given back.");
  idle.update({{"minimum", 0}, {"maximum", 1000000}, {"default", 300}});
  return {{"type", "object"},
          {"required", {"image", "agents"}},
          {"properties",
           {{"image", typed("string", "Image with easyscaled.")},
            {"imagePullPolicy", typed("string", "As in a container.")},
            {"checkpointClaim",
             typed("string",
                   "PersistentVolumeClaim that all pods can write (ReadWriteMany), for "
                   "checkpoints and saved states. Without it they end with their agent, "
                   "so no agent is given back before all jobs are over.")},
            {"idleSeconds", idle},
            {"head", {{"type", "object"}, {"default", Json::object()}, {"properties", head}}},
            {"agents",
             {{"type", "array"},
              {"maxItems", kListMax},
              {"x-kubernetes-list-type", "map"},
              {"x-kubernetes-list-map-keys", {"name"}},
              {"items", group}}}}}};
}

Json cluster_status_schema() {
  return {{"type", "object"},
          {"properties",
           {{"observedGeneration", typed("integer", "The generation that the others are about.")},
            {"phase", typed("string", "Serving, or Waiting for its head.")},
            {"agents", typed("integer", "Agents that have joined.")},
            {"devices", typed("integer", "Their devices.")},
            {"devicesInUse", typed("integer", "Devices that jobs hold.")},
            {"endpoint", typed("string", "Where the head serves.")},
            {"conditions", conditions_schema()}}}};
}

Json column(const char* name, const char* type, const char* path) {
  return {{"name", name}, {"type", type}, {"jsonPath", path}};
}

Json definition(const char* kind, const std::string& plural, Json short_names, Json spec,
                Json status, Json columns, Json subresources) {
  std::string singular(kind);
  for (char& c : singular) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  columns.push_back(column("Age", "date", ".metadata.creationTimestamp"));
  return {
      {"apiVersion", "apiextensions.k8s.io/v1"},
      {"kind", "CustomResourceDefinition"},
      {"metadata", {{"name", plural + "." + kGroup}}},
      {"spec",
       {{"group", kGroup},
        {"scope", "Namespaced"},
        {"names",
         {{"plural", plural},
          {"singular", singular},
          {"kind", kind},
          {"shortNames", std::move(short_names)},
          {"categories", Json::array({"easyscale"})}}},
        {"versions",
         Json::array({{{"name", kVersion},
                       {"served", true},
                       {"storage", true},
                       {"subresources", std::move(subresources)},
                       {"additionalPrinterColumns", std::move(columns)},
                       {"schema",
                        {{"openAPIV3Schema",
                          {{"type", "object"},
                           {"required", Json::array({"spec"})},
                           {"properties",
                            {{"spec", std::move(spec)}, {"status", std::move(status)}}}}}}}}})}}}};
}

}  // namespace

Json job_definition() {
  return definition("ElasticTrainingJob", "elastictrainingjobs", Json::array({"etj"}), job_schema(),
                    job_status_schema(),
                    Json::array({column("Phase", "string", ".status.phase"),
                                 column("Devices", "integer", ".status.devices"),
                                 column("Step", "integer", ".status.step"),
                                 column("Loss", "string", ".status.loss")}),
                    {{"status", Json::object()},
                     {"scale",
                      {{"specReplicasPath", ".spec.devices"},
                       {"statusReplicasPath", ".status.devices"},
                       {"labelSelectorPath", ".status.selector"}}}});
}

Json cluster_definition() {
  return definition("EasyScaleCluster", "easyscaleclusters", Json::array({"esc"}), cluster_schema(),
                    cluster_status_schema(),
                    Json::array({column("Phase", "string", ".status.phase"),
                                 column("Agents", "integer", ".status.agents"),
                                 column("Devices", "integer", ".status.devices"),
                                 column("In use", "integer", ".status.devicesInUse")}),
                    {{"status", Json::object()}});
}

std::string definitions_yaml() {
  return "# Written by `esctl kubernetes crd`; a test compares the two.\n" +
         yaml_text(job_definition()) + "---\n" + yaml_text(cluster_definition());
}

}  // namespace es::actors::kubernetes
