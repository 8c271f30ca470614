// The lines of the matrix: namespaces, workloads and endpoints, folded and filtered. Rows and columns have the same.

/** Every line there can be, as a tree. */
const tree = map.sections.map((section, number) => {
  const top = {
    key: `section ${number}`,
    name: section.title,
    detail: section.kind === "namespace" ? "namespace" : "",
    depth: 0,
    open: true,
    section,
  };
  top.children = section.workloads.map((workload, at) => {
    const id = workload.members.map((member) => map.endpoints[member].id);
    const line = {
      key: `${top.key} ${at}`,
      name: workload.name,
      detail: workload.kind,
      depth: 1,
      open: false,
      members: workload.members,
      section,
      top,
      title: workload.members.length === 1 ? id[0] : `${section.title}/${workload.kind}/${workload.name}`,
      children: [],
    };
    if (workload.members.length > 1) {
      line.children = workload.members.map((member) => leaf(member, line, section));
    }
    return line;
  });
  top.members = top.children.flatMap((line) => line.members);
  top.title = section.kind === "namespace" ? `namespace ${section.title}` : section.title;
  return top;
});

function leaf(member, parent, section) {
  const { id } = map.endpoints[member];
  const name = id.startsWith(`${section.title}/`) ? id.slice(section.title.length + 1) : id;
  return { key: `${parent.key} ${member}`, name, detail: "", depth: 2, members: [member], section, title: id, children: [] };
}

const everyLine = tree.flatMap((top) => [top, ...top.children.flatMap((line) => [line, ...line.children])]);
for (const line of everyLine) {
  line.parts = partsOf(line.members);
  const addresses = line.members.flatMap((member) => [map.endpoints[member].id, ...map.endpoints[member].addresses]);
  line.words = [line.section.title, line.detail, line.name, line.title, ...addresses].join("\n").toLowerCase();
}

/** The lines that are compared with each other where nothing is folded: workloads. */
const workloads = tree.flatMap((top) => top.children);

/** Whether a line is only the heading of those below it. */
function isHeading(line) {
  return line.open && line.children.length > 0;
}

/** What a text looks for: lines that hold all of its words. */
function matcher(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (line) => words.every((word) => line.words.includes(word));
}

/** The lines to show: those that match and are not folded away, with the headings above them. */
function visibleLines(matches, isKept) {
  const found = [];
  for (const top of tree) {
    const below = [];
    for (const line of top.children) {
      const members = line.children.filter((child) => matches(child) && isKept(child));
      if (!(members.length || (matches(line) && isKept(line)))) continue;
      below.push(line, ...(line.open ? members : []));
    }
    if (below.length) found.push(top, ...(top.open ? below : []));
  }
  return found;
}
