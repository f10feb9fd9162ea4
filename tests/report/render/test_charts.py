import json
import math
from dataclasses import replace

import pytest

from invariance.core.artefacts import Boxes, Curve, Figure, Lines
from invariance.report.render.charts import charts, embedded, label, legend
from invariance.report.render.palette import INK, palette

graph_objects = pytest.importorskip("plotly.graph_objects", reason="needs plotly: pip install 'invariance[report]'")


@pytest.mark.parametrize("names", ["ordinary", "hostile"], indirect=True)
def test_plotly_accepts_every_chart(artefacts):
    for artefact in artefacts[1:]:
        for chart in charts(artefact, palette([artefact])):
            plain = json.loads(embedded(chart).replace(f'"{INK}"', '"#000000"'))
            figure = graph_objects.Figure(plain["traces"], plain["layout"])  # refuses what plotly does not know
            assert len(figure.data) == len(chart["traces"]) > 0


def test_a_band_is_switched_with_its_curve(lines):
    chart = charts(lines, palette([lines]))[0]
    bands = [trace for trace in chart["traces"] if trace.get("fill")]
    curves = [trace for trace in chart["traces"] if not trace.get("fill")]
    assert [trace["meta"] for trace in bands] == [trace["meta"] for trace in curves]


def test_a_band_goes_there_and_back():
    curve = Curve("a", (0.0, 1.0), (5.0, 6.0), (4.0, math.nan), (6.0, 7.0))
    (band, _) = charts(figure := Figure("f", "", "", (Lines("", "x", "y", (curve,)),)), palette([figure]))[0]["traces"]
    assert (band["x"], band["y"]) == ([0.0, 0.0], [6.0, 4.0])


def test_erm_is_black_and_the_oracle_grey_and_dashed(lines):
    colours = palette([lines])
    assert colours["ERM"].colour == INK
    assert (colours["GrayScale"].colour, colours["GrayScale"].dash) == ("#888888", "dash")
    assert len(set(colours.values())) == len(colours)


def test_a_method_has_one_colour_on_the_whole_page(artefacts):
    whole = palette(artefacts)
    for artefact in artefacts[1:]:
        for item in legend(artefact, whole):
            assert item["colour"] == whole[item["name"]].colour


def test_there_are_styles_for_many_names():
    curves = tuple(Curve(str(i), (0.0,), (0.0,)) for i in range(36))
    styles = palette([Figure("f", "", "", (Lines("", "x", "y", curves),))])
    assert len(set(styles.values())) == 36


def test_few_places_on_a_logarithmic_axis_are_its_ticks():
    panel = Lines("", "batch size", "y", (Curve("a", (256.0, 1024.0, 50000.0), (1.0, 2.0, 3.0)),), log_x=True)
    axis = charts(Figure("f", "", "", (panel,)), palette([Figure("f", "", "", (panel,))]))[0]["layout"]["xaxis"]
    assert axis["tickvals"] == [256, 1024, 50000]
    assert axis["ticktext"] == ["256", "1024", "50000"]
    assert axis["range"][0] < math.log10(256)
    assert axis["range"][1] > math.log10(50000)


def test_one_place_alone_on_a_logarithmic_axis_has_room_around_it():
    figure = Figure("f", "", "", (Lines("", "batch size", "y", (Curve("a", (1000.0,), (1.0,)),), log_x=True),))
    assert charts(figure, palette([figure]))[0]["layout"]["xaxis"]["range"] == [2.5, 3.5]


def test_a_logarithmic_axis_has_holes_where_a_curve_is_not_positive():
    figure = Figure("f", "", "", (Lines("", "x", "P", (Curve("a", (1.0, 2.0), (-1.0, 2.0)),), log_y=True),))
    (chart,) = charts(figure, palette([figure]))
    assert embedded(chart["traces"][0]["y"]) == "[null,2.0]"


def test_a_long_name_is_cut_in_its_middle_on_an_axis_and_nowhere_else(boxes):
    long = "a name of forty characters & more, number"
    one = replace(boxes, panels=(Boxes("", "%", {f"{long} 1": (1.0, 2.0), f"{long} 2": (3.0,)}),))
    (chart,) = charts(one, palette([one]))
    assert chart["layout"]["xaxis"]["ticktext"] == ["a name of f…re, number 1", "a name of f…re, number 2"]
    assert [trace["x0"] for trace in chart["traces"]] == [0, 1]
    assert chart["traces"][0]["name"] == f"{long} 1".replace("&", "&amp;")


def test_long_names_that_differ_only_in_their_middle_stay_apart(boxes):
    towns = [f"University hospital of {town}, Department of Medicine" for town in ("Lyon", "Bern", "Graz")]
    one = replace(boxes, panels=(Boxes("", "%", dict.fromkeys(towns, (1.0, 2.0))),))
    (chart,) = charts(one, palette([one]))
    shown = chart["layout"]["xaxis"]["ticktext"]
    assert shown == ["University …Lyon, Depart", "University …Bern, Depart", "University …Graz, Depart"]


def test_what_json_does_not_have_becomes_null():
    assert embedded([math.nan, math.inf, 1 / 3, 2]) == "[null,null,0.333333,2]"
    with pytest.raises(TypeError):
        embedded(object())


def test_no_name_ends_a_script_or_opens_a_comment(hostile):
    text = embedded([*hostile, "\u2028"])
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)[:-1] == list(hostile)


def test_plotly_labels_are_shown_literally():
    assert label("<b>a</b> & <a href='x'>") == "&lt;b&gt;a&lt;/b&gt; &amp; &lt;a href='x'&gt;"


def test_between_named_places_there_is_no_line():
    curves = tuple(Curve(n, (0.0, 1.0), (5.0, 6.0), (4.0, 5.5), (7.0, 6.5)) for n in ("ERM", "IRMv1"))
    figure = Figure("f", "", "", (Lines("", "site", "y", curves, places=("Lyon", "Bern")),))
    (chart,) = charts(figure, palette([figure]))
    first, second = chart["traces"]
    assert first["mode"] == "markers"
    assert first["error_y"]["array"] == [2.0, 0.5]
    assert first["error_y"]["arrayminus"] == [1.0, 0.5]
    assert -0.5 < first["x"][0] < 0 < second["x"][0] < 0.5
    plain = json.loads(embedded(chart).replace(f'"{INK}"', '"#000000"'))
    graph_objects.Figure(plain["traces"], plain["layout"])
