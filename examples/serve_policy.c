/* Asks an exported policy through TensorFlow's C API alone.

   serve_policy EXPORT INPUT_OP OUTPUT_OP OUTPUT_INDEX WIDTH ROWS... < observations > actions

   Reads float32 observations of WIDTH numbers each from standard input, asks about them in batches of ROWS rows, and
   writes the float32 answers to standard output. `saved_model_cli show --dir EXPORT --all` tells the names. */

#include <stdio.h>
#include <stdlib.h>

#include <tensorflow/c/c_api.h>

static void check(const TF_Status* status, const char* what) {
  if (TF_GetCode(status) != TF_OK) {
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(1);
  }
}

static TF_Operation* find(TF_Graph* graph, const char* name) {
  TF_Operation* operation = TF_GraphOperationByName(graph, name);
  if (operation == NULL) {
    fprintf(stderr, "the graph has no operation %s\n", name);
    exit(1);
  }
  return operation;
}

int main(int argc, char** argv) {
  if (argc < 7) {
    fprintf(stderr, "usage: %s EXPORT INPUT_OP OUTPUT_OP OUTPUT_INDEX WIDTH ROWS...\n", argv[0]);
    return 2;
  }
  const char* tags[] = {"serve"};
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  check(status, "load");
  const TF_Output input = {find(graph, argv[2]), 0}, output = {find(graph, argv[3]), atoi(argv[4])};
  const int64_t width = atoll(argv[5]);

  for (int i = 6; i < argc; i++) {
    const int64_t shape[] = {atoll(argv[i]), width};
    const size_t count = (size_t)(shape[0] * width);
    TF_Tensor* observations = TF_AllocateTensor(TF_FLOAT, shape, 2, count * sizeof(float));
    if (fread(TF_TensorData(observations), sizeof(float), count, stdin) != count) {
      fprintf(stderr, "too few numbers\n");
      return 1;
    }
    TF_Tensor* actions = NULL;
    TF_SessionRun(session, NULL, &input, &observations, 1, &output, &actions, 1, NULL, 0, NULL, status);
    check(status, "run");
    fwrite(TF_TensorData(actions), 1, TF_TensorByteSize(actions), stdout);
    TF_DeleteTensor(observations);
    TF_DeleteTensor(actions);
  }

  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
