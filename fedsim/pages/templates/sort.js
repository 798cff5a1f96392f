for (const head of document.querySelectorAll('.sortable th')) {
  const button = document.createElement('button');
  button.append(...head.childNodes);
  head.append(button);
  button.onclick = () => {
    const column = [...head.parentNode.children].indexOf(head), body = head.closest('table').tBodies[0];
    const up = head.getAttribute('aria-sort') !== 'ascending', text = (row) => row.children[column].textContent;
    const value = (row) => parseFloat(text(row).replaceAll(',', '').replace('\u2212', '-'));
    const unit = (row) => text(row).split(' \u00b1')[0].replace(/[\d.,\u2212]/g, '').trim(), rows = [...body.rows];
    const plain = rows.every((row) => value(row) === value(row) && unit(row) === unit(rows[0]));
    rows.sort((a, b) => (plain ? value(a) - value(b) : text(a).localeCompare(text(b))) * (up ? 1 : -1));
    for (const each of head.parentNode.children) each.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    body.append(...rows);
  };
}
