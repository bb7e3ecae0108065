"use strict";
(() => {
  const element = document.getElementById("data");
  if (!element) return;
  const data = JSON.parse(element.textContent);
  const root = document.documentElement;
  const form = document.querySelector("form.choose");
  if (!form || !data.targets.length) return;

  const floor = (a, b) => Math.floor(a / b);
  const operations = {
    "+": (...v) => v.reduce((a, b) => a + b), "*": (...v) => v.reduce((a, b) => a * b), "**": (a, b) => a ** b,
    "//": floor, "ceildiv": (a, b) => -floor(-a, b), "%": (a, b) => a - b * floor(a, b),
    "min": Math.min, "max": Math.max, "and": (...v) => v.every(Boolean), "or": (...v) => v.some(Boolean), "not": (a) => !a,
    "==": (a, b) => a === b, "!=": (a, b) => a !== b, "<": (a, b) => a < b, "<=": (a, b) => a <= b,
    ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  };
  const value = (tree, at) => Array.isArray(tree) ? operations[tree[0]](...tree.slice(1).map((part) => value(part, at)))
    : typeof tree === "string" ? at[tree] : tree;

  const engineering = (number) => {
    const letters = ["", " k", " M", " G", " T", " P", " E"];
    let step = 0;
    while (Math.abs(number) >= 999.5 && step < letters.length - 1) { number /= 1000; step += 1; }
    const digits = Math.abs(number) < 9.995 ? 2 : Math.abs(number) < 99.95 ? 1 : 0;
    return number.toFixed(step ? digits : 0) + letters[step];
  };
  const written = (number, shape) => shape === "si" ? engineering(number) : Math.trunc(number).toLocaleString("en-US");

  const outside = (dim, size) => {
    if (!Number.isInteger(size) || size < 1) return "is no size";
    if (dim.values.includes(size) && !dim.dynamic) return "";
    const listed = !dim.dynamic && dim.also === null && dim.min === null && dim.max === null && dim.multiple_of === null;
    if (listed) return "is none of " + dim.values.join(", ");
    if (size < (dim.min ?? 1) || (dim.max !== null && size > dim.max)) return `is not from ${dim.min ?? 1} to ${dim.max}`;
    if (dim.multiple_of !== null && size % dim.multiple_of) return `is no multiple of ${dim.multiple_of}`;
    if (dim.also !== null && !value(dim.also, { [dim.name]: size })) return "is outside the declared domain";
    return "";
  };

  const output = form.querySelector("output");
  const field = (name) => form.querySelector(`[data-field="${name}"]`);
  const size_of = (name) => form.querySelector(`[data-dim="${name}"]`);
  const target = () => data.targets.find((entry) => entry.arch === field("target").value);

  const reveal = (id) => {
    for (const view of document.querySelectorAll("details.view")) view.open = view.id === id;
    for (const row of document.querySelectorAll("tr[data-view]")) {
      row.classList.toggle("current", row.dataset.view === id);
    }
    for (const set of document.querySelectorAll(".bankset figure")) {
      set.hidden = !set.dataset.views.split(" ").includes(id);
    }
  };

  const roof = (arch, view, at) => {
    const flops = value(view.flops, at), bytes = value(view.bytes, at);
    for (const figure of document.querySelectorAll("figure.roofline")) {
      const mine = figure.dataset.arch === arch && Number(figure.dataset.peak) === view.peak;
      figure.hidden = figure.dataset.arch !== arch;
      const dot = figure.querySelector(".plot .yours");
      const place = (axis, number) => {
        const [low, high] = axis.split(" ").map(Number);
        return Math.min(100, Math.max(0, 100 * (Math.log10(number) - low) / (high - low))) + "%";
      };
      dot.hidden = !mine;
      figure.querySelector(".yours-legend").hidden = !mine;
      if (!mine) continue;
      dot.style.left = place(figure.dataset.x, flops / bytes);
      dot.style.bottom = place(figure.dataset.y, Math.min(view.peak, target().bandwidth * flops / bytes));
    }
    if (!view.peak) return "";
    const seconds = Math.max(flops / view.peak, bytes / target().bandwidth);
    const bound = flops / view.peak > bytes / target().bandwidth ? "tensor cores" : "memory";
    return ` At least ${Number((seconds * 1e6).toPrecision(3))} µs on ${target().part}, bound by ${bound}.`;
  };

  const show = () => {
    const chip = target();
    const at = { sm_count: chip.sm_count };
    for (const dim of data.dims) {
      const input = size_of(dim.name), size = Number(input.value);
      const problem = outside(dim, size);
      input.setAttribute("aria-invalid", String(Boolean(problem)));
      if (problem) { output.textContent = `${dim.name} = ${input.value} ${problem}.`; return; }
      at[dim.name] = size;
    }
    const dtypes = field("dtypes");
    const view = chip.views.find((entry) => (!dtypes || entry.dtypes.includes(dtypes.value)) && value(entry.when, at));
    if (!view) { output.textContent = "No case of this target holds for this shape."; return; }
    const drawn = document.getElementById(view.id);
    if (!drawn) {
      const row = document.querySelector(`tr[data-view="${view.id}"] th`);
      output.textContent = `This shape belongs to ${row ? row.textContent : view.id}, which is listed but not drawn.` + roof(chip.arch, view, at);
      return;
    }
    reveal(view.id);
    for (const cell of drawn.querySelectorAll("[data-e]")) {
      cell.textContent = written(value(data.expressions[Number(cell.dataset.e)], at), cell.dataset.form);
    }
    output.textContent = `This shape belongs to ${drawn.querySelector("h3").textContent}.` + roof(chip.arch, view, at);
  };

  const take = (view, arch) => {
    field("target").value = arch;
    if (field("dtypes") && !view.dtypes.includes(field("dtypes").value)) field("dtypes").value = view.dtypes[0];
    for (const [name, size] of Object.entries(view.shape)) size_of(name).value = size;
    show();
  };
  const follow = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    for (const chip of data.targets) for (const view of chip.views) {
      if (view.id === id && Object.keys(view.shape).length) { take(view, chip.arch); return true; }
    }
    return false;
  };

  root.classList.add("js");
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", follow);
  if (follow()) return;
  const open = document.querySelector("details.view[open]");
  const views = data.targets.flatMap((chip) => chip.views.map((view) => ({ view, arch: chip.arch })));
  const first = views.find((entry) => open && entry.view.id === open.id) ?? views[0];
  take(first.view, first.arch);
})();
