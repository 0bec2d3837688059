#!/usr/bin/env python3
"""Rows of tables as samples: numbers, categories, targets, and one error for what is wrong."""
import gc
import json
import sys
import tomllib
import unittest
from importlib.util import find_spec
from unittest import mock

import numpy as np
import torch
from support import FakeProgramsCase, FolderCase, offered_types, programs_train_model_files
from torch import nn

import easyscale as es
from easyscale.data import table_rows

CSV = "x,color,y,price\n1.5,red,-2,10\n2,\"deep, blue\",3e2,20.5\n\n-0.25,red,7,30\n"


class TableCase(FolderCase):
    def write(self, text, name="rows.csv"):
        file = self.folder / name
        file.write_text(text)
        return file

    def refused(self, text, call):
        with self.assertRaisesRegex(es.UsageError, text):
            call()


class Csv(TableCase):
    def test_numbers_categories_and_the_target(self):
        data = es.data.table(self.write(CSV), target="price", categories=["color"])
        self.assertEqual(data.samples, 3)
        numbers, colors, prices = data.arrays.values()
        np.testing.assert_array_equal(numbers, np.float32([[1.5, -2], [2, 300], [-0.25, 7]]))
        np.testing.assert_array_equal(colors, [[1], [0], [1]])
        np.testing.assert_array_equal(prices, np.float32([10, 20.5, 30]))
        self.assertEqual([x.dtype for x in (numbers, colors, prices)],
                         [np.float32, np.int32, np.float32])
        self.assertEqual(data.columns.values, {"color": ["deep, blue", "red"]})

    def test_chosen_columns_in_their_order_and_names(self):
        data = es.data.table(self.write(CSV), "color", columns=["y", "x"],
                             categories={"color": ["red", "deep, blue"]}, names=("a", "b"))
        np.testing.assert_array_equal(data.arrays["a"], np.float32([[-2, 1.5], [300, 2], [7, -0.25]]))
        np.testing.assert_array_equal(data.arrays["b"], [0, 1, 0])
        self.refused("names = \\('a',\\): allowed are 2, for numbers, target", lambda: es.data.table(
            self.folder / "rows.csv", "price", columns=["x"], names=("a",)))

    def test_categories_that_are_whole_numbers_are_sorted_by_value(self):
        file = self.write("x,c\n1,10\n1,9\n1,-1\n")
        self.assertEqual(es.data.table(file, "c", categories=["c"]).columns.values,
                         {"c": ["-1", "9", "10"]})

    def test_many_pieces_are_the_whole(self):
        rows = [(i / 3, i % 7, i) for i in range(100)]
        file = self.write("a,b,t\n" + "".join(f"{a!r},k{b},{t}\n" for a, b, t in rows))
        whole = es.data.table(file, "t", categories=["b"])
        with mock.patch.object(table_rows, "PIECE_ROWS", 7):
            cut = es.data.table(file, "t", categories=["b"])
        for key in whole.arrays:
            self.assertEqual(whole.arrays[key].tobytes(), cut.arrays[key].tobytes())
        np.testing.assert_array_equal(whole.arrays[0][:, 0], np.float32([a for a, _, _ in rows]))

    def test_the_temporary_files_end_with_the_data(self):
        data = es.data.table(self.write(CSV), "price", categories=["color"])
        folder = data.holder.path
        self.assertTrue((folder / "numbers.npy").is_file())
        del data
        gc.collect()
        self.assertFalse(folder.exists())

    def test_what_is_wrong_is_named_with_line_and_column(self):
        def refused(text, rows, **settings):
            file = self.write(rows)
            self.refused(f"{file}: {text}", lambda: es.data.table(file, "t", **settings))
        refused("line 3: column 'a' has no value: allowed is a number", "a,t\n1,2\n ,3\n")
        refused("line 2: column 'a' is 'red': allowed is a number of fp32, or a column among the "
                "categories", "a,t\nred,2\n")
        for number in ("nan", "inf", "1e39", "0x10"):
            refused(f"line 2: column 't' is '{number}'", f"a,t\n1,{number}\n")
        refused("line 4: column 'a' is 'x'", 'a,t\n1,"2"\n\nx,3\n')
        refused("line 3 has 3 values: allowed are 2", "a,t\n1,2\n1,2,3\n")
        refused("line 2 has 1 values", "a,t\n1\n")
        refused("line 1: column 'a' is there twice", "a,a,t\n1,2,3\n")
        refused("line 1: there is no column 't': it has the columns a, b", "a,b\n1,2\n")
        refused("line 1: there is no column 'z'", "a,t\n1,2\n", columns=["z"])
        refused("line 2: column 't' is '5': allowed is 1, 2", "a,t\n1,5\n", categories={"t": [1, 2]})
        refused("line 3: column 't' has no value: allowed is one of the categories", "a,t\n1,5\n1,\n",
                categories=["t"])
        refused("line 2: .*allowed is CSV with commas", 'a,t\n1,"2"3\n')
        self.refused("has no rows", lambda: es.data.table(self.write("a,t\n"), "t"))
        self.refused("is empty: allowed is a file with a header line",
                     lambda: es.data.table(self.write(""), "t"))
        (self.folder / "rows.csv").write_bytes(b"a,t\n\xff,1\n")
        self.refused("has bytes that are no UTF-8", lambda: es.data.table(self.folder / "rows.csv", "t"))
        with self.assertRaisesRegex(es.NotFoundError, "cannot be read: No such file"):
            es.data.table(self.folder / "none.csv", "t")

    def test_settings_that_do_not_fit_are_refused(self):
        file = self.write(CSV)

        def refused(text, **settings):
            self.refused(text, lambda: es.data.table(file, "price", **settings))
        refused("columns = \\['price'\\]: allowed is at least one column", columns=["price"])
        refused("columns = \\[\\]: allowed is at least one", columns=[])
        refused("columns = \\['x', 'x'\\]", columns=["x", "x"])
        refused("categories: 'color' is neither among", columns=["x"], categories=["color"])
        refused("categories = 'color': allowed is a list", categories="color")
        refused("categories\\['color'\\] = .*: allowed is a list of different values",
                categories={"color": ["red", "red "]})


class Parquet(TableCase):
    @unittest.skipUnless(find_spec("pyarrow"), "there is no pyarrow: scripts/setup_pytorch")
    def test_a_parquet_file_gives_the_samples_of_the_same_csv(self):
        import pyarrow as pa
        from pyarrow import parquet
        table = pa.table({"x": pa.array([1.5, 2.0, -0.25]), "y": pa.array([-2, 300, 7], pa.int64()),
                          "color": pa.array(["red", "deep, blue", "red"]).dictionary_encode(),
                          "price": pa.array([10, 20.5, 30], pa.float32())})
        file = self.folder / "rows.parquet"
        parquet.write_table(table, file)
        settings = {"target": "price", "columns": ["x", "color", "y"], "categories": ["color"]}
        found = es.data.table(file, **settings)
        same = es.data.table(self.write(CSV), **settings)
        self.assertEqual(found.columns, same.columns)
        for key in same.arrays:
            self.assertEqual(found.arrays[key].tobytes(), same.arrays[key].tobytes())
        missing = table.set_column(0, "x", pa.array([1.5, 2.0, None]))
        parquet.write_table(missing, file)
        self.refused("rows.parquet: row 3: column 'x' has no value",
                     lambda: es.data.table(file, **settings))
        self.refused("row 1: column 'color' is 'red': allowed is a number of fp32",
                     lambda: es.data.table(file, "price", columns=["color"]))
        file.write_bytes(b"no parquet")
        self.refused("is no Parquet file", lambda: es.data.table(file, **settings))

    def test_without_pyarrow_parquet_is_refused(self):
        with mock.patch.dict(sys.modules, {"pyarrow": None}):
            self.refused("Parquet needs the package pyarrow, which is not installed",
                         lambda: es.data.table(self.write("", "rows.parquet"), "t"))


class Recorded(TableCase):
    """The same columns and numbers of categories for other files."""

    def test_another_file_gets_the_numbers_of_the_first(self):
        data = es.data.table(self.write(CSV), "price", categories=["color"])
        test = data.read(self.write("price,more,color,y,x\n1,?,red,2,3\n", "test.csv"))
        np.testing.assert_array_equal(test.arrays[0], [[3, 2]])
        np.testing.assert_array_equal(test.arrays[1], [[1]])
        data.check_eval(test)
        self.refused("line 2: column 'color' is 'green': allowed is deep, blue, red", lambda: data.read(
            self.write("price,color,y,x\n1,green,2,3\n", "test.csv")))
        self.refused("test.csv: line 1: there is no column 'y'", lambda: data.read(
            self.write("price,color,x\n1,red,2\n", "test.csv")))
        other = es.data.table(self.folder / "rows.csv", "price", categories={
            "color": ["red", "deep, blue"]})
        self.refused("eval_data has other columns or categories", lambda: data.check_eval(other))

    def test_a_record_is_read_for_prediction_without_the_target(self):
        data = es.data.table(self.write(CSV), "price", categories=["color"])
        record = self.folder / "columns.json"
        data.save_columns(record)
        rows = es.data.table(self.write("x,y,color\n1,2,red\n", "new.csv"), columns=record)
        self.assertEqual(len(rows.arrays), 2)
        np.testing.assert_array_equal(rows.arrays[1], [[1]])
        again = es.data.table(self.folder / "rows.csv", "price", columns=record)
        self.assertEqual(again.columns, data.columns)
        self.refused("target = 'x': allowed is 'price'", lambda: es.data.table(
            self.folder / "rows.csv", "x", columns=record))
        self.refused("categories: allowed is none beside", lambda: es.data.table(
            self.folder / "rows.csv", columns=record, categories=["x"]))
        record.write_text(json.dumps(json.loads(record.read_text()) | {"format": 2}))
        self.refused("format = 2: allowed is 1", lambda: es.data.table(
            self.folder / "rows.csv", columns=record))
        record.write_text("{}")
        self.refused("allowed is a file that save_columns", lambda: es.data.table(
            self.folder / "rows.csv", columns=record))


class Net(nn.Module):
    """Numbers and one category."""

    def __init__(self):
        super().__init__()
        self.color, self.last = nn.Embedding(2, 3), nn.Linear(5, 1)

    def forward(self, numbers, categories):
        color = self.color(categories).flatten(1)
        return self.last(torch.cat([numbers, color], 1)).flatten(0)


class JobFiles(FakeProgramsCase):
    def test_the_job_has_arrays_and_the_record_of_the_columns(self):
        file = self.folder / "rows.csv"
        file.write_text(CSV)
        data = es.data.table(file, "price", categories=["color"])
        job = es.Job(Net(), loss=nn.MSELoss(), data=data, eval_data=data.read(file), batch_size=1,
                     max_p=1, steps=2, optimizer=es.Optimizer("sgd"), directory=self.folder / "job")
        table = tomllib.loads(job.write().read_text())["data"]
        self.assertEqual(table, {"kind": "arrays", "path": "data"})
        found = self.folder / "job/data"
        self.assertEqual(sorted(x.relative_to(found).as_posix() for x in found.rglob("*.*")),
                         ["columns.json", *(f"{half}/{name}.npy" for half in ("eval", "train")
                                            for name in ("categories", "label", "numbers"))])
        np.testing.assert_array_equal(np.load(found / "train/categories.npy"), [[1], [0], [1]])
        rows = es.data.table(file, columns=found / "columns.json")
        self.assertEqual(rows.columns, data.columns.without_target())


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Train(FolderCase):
    def test_the_losses_are_those_of_pytorch(self):
        random = np.random.default_rng(5)
        rows = [(random.normal(), random.normal(), random.choice(["red", "blue"])) for _ in range(16)]
        file = self.folder / "rows.csv"
        file.write_text("a,b,color,t\n" + "".join(
            f"{a!r},{b!r},{color},{a - b + (color == 'red')!r}\n" for a, b, color in rows))
        data = es.data.table(file, "t", categories=["color"])
        torch.manual_seed(2)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        job = es.Job(model, loss=nn.MSELoss(), data=data, batch_size=4, max_p=4, steps=5,
                     optimizer=optimizer)
        run = job.run(devices=offered_types()[0] + ":1", progress=False)
        x = [torch.from_numpy(np.array(data.arrays[key])) for key in (0, 1, 2)]
        expected = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x[0], x[1]), x[2])
            loss.backward()
            optimizer.step()
            expected.append(loss.item())
        np.testing.assert_allclose([line.loss for line in run.history], expected, rtol=1e-4)


if __name__ == "__main__":
    unittest.main()
