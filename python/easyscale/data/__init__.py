"""Samples from NumPy arrays, tensors or memory-mapped files, from other files, or of a dataset.

    data = es.data.arrays(x_train, y_train)
    data = es.data.arrays(input_ids=ids, attention_mask=mask, labels=labels)
    data = es.data.tokens("folder", length=128)
    data = es.data.texts("book.txt", "tokenizer.json", length=128)
    data = es.data.images("folder", size=224)
    data = es.data.webdataset("folder", size=224)
    data = es.data.table("rows.csv", target="price")
    data = es.data.dataset(MyDataset("folder"))
    data = es.data.bucketed(es.data.dataset(texts), buckets=8)

An array is [samples, ...]. Nothing is copied until a job is written, and then in pieces. Token
files are never copied. A dataset computes its samples while the job trains.
"""
from __future__ import annotations

from .array_samples import Arrays, arrays
from .bucketed_samples import Bucketed, bucketed
from .map_dataset import Dataset, dataset
from .dataset_check import check
from .image_samples import Images, images, webdataset
from .table_samples import Table, table
from .text_samples import Texts, texts
from .token_samples import Tokens, tokens

__all__ = ["Arrays", "Bucketed", "Dataset", "Images", "Table", "Texts", "Tokens", "arrays", "bucketed", "check",
           "dataset", "images", "table", "texts", "tokens", "webdataset"]
