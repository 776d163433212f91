"""A run's folder on disk. Nothing else in the package names a file of a run.

    config.json            every setting of the run, and the number of this layout
    versions.json          versions of packages, for each part of the run
    metrics.csv            one row for each evaluation
    tensorboard/           the same columns as TensorBoard events
    learning_curve.png     the returns of the evaluations
    policies/*.npz         weights of the best and the last policy, with their critics
    saved_model/*/N/       exported policies; litert/ and onnx/ in those formats
    checkpoints/           what a stopped run resumes from
    finished.json          the step at which the run finished
    output.log             what a run of an experiment printed
    .lock                  held by the process that trains

| module | what it does |
|---|---|
| paths | the names above |
| lock | one writer at a time |
| settings | config.json: writes it, reads it, checks that the folder is of this format and run |
| identity | when two runs are the same |
| metrics, metrics_log | reads and writes metrics.csv |
| provenance | versions.json |
| progress | the newest evaluation, and whether the run is finished |
| checkpoints | complete states |
| policies | files of weights, and the weights in a checkpoint |
| restore | networks with these weights |
"""
